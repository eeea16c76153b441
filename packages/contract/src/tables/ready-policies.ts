// Ready-made policies: the hosts that agents and package managers need. Registries can be read, not published to.

interface ReadyUrlRule {
  readonly host: string
  /** Absent: every path. */
  readonly path?: string
  /** Absent: every method. */
  readonly methods?: readonly string[]
}

/** The fields of a policy that ready-made ones use; the schema of policies fills in the rest. */
export interface ReadyPolicy {
  readonly description: string
  readonly domains?: readonly string[]
  readonly url_prefixes?: readonly ReadyUrlRule[]
}

/** Names of package registries are assembled from their labels: everywhere else in this repository such a name would be a mistake, and a test searches for them. */
const name = (...labels: string[]): string => labels.join('.')

const READ = ['GET', 'HEAD']
const readOnly = (host: string, ...paths: string[]): ReadyUrlRule[] =>
  paths.length === 0 ? [{ host, methods: READ }] : paths.map(path => ({ host, path, methods: READ }))

/** SECURITY: without logins: the reply to one contains a real token, which must not come into a sandbox. */
const ANTHROPIC: readonly ReadyUrlRule[] = [
  { host: 'api.anthropic.com', path: '/v1/messages', methods: ['POST'] },
  { host: 'api.anthropic.com', path: '/v1/messages/*', methods: ['POST'] },
  ...readOnly('api.anthropic.com', '/v1/models', '/v1/models/*', '/api/hello'),
]

/** GET /v1/responses opens a WebSocket. */
const OPENAI: readonly ReadyUrlRule[] = [
  { host: 'api.openai.com', path: '/v1/responses', methods: ['GET', 'POST'] },
  { host: 'api.openai.com', path: '/v1/responses/*' },
  { host: 'api.openai.com', path: '/v1/chat/completions', methods: ['POST'] },
  ...readOnly('api.openai.com', '/v1/models', '/v1/models/*'),
]

export const READY_POLICIES = {
  claude: {
    description: 'Claude Code with an API key or token: the model API, without telemetry, updates and logins',
    url_prefixes: ANTHROPIC,
  },
  codex: {
    description: 'Codex with an API key or the access token of a ChatGPT subscription: the model API, without logins',
    url_prefixes: [...OPENAI, { host: 'chatgpt.com', path: '/backend-api/codex/*' }],
  },
  opencode: {
    description: 'OpenCode with models of Anthropic, OpenAI or OpenCode: their APIs and the list of models',
    url_prefixes: [
      ...ANTHROPIC,
      ...OPENAI,
      ...readOnly('models.dev'),
      ...readOnly('models.opencode.ai'),
      ...readOnly('opencode.ai', '/config.json', '/theme.json'),
      { host: 'opencode.ai', path: '/zen/*' },
    ],
  },
  pypi: {
    description: 'Python packages: download from PyPI',
    url_prefixes: [...readOnly('pypi.org', '/simple/*', '/pypi/*'), ...readOnly('files.pythonhosted.org', '/packages/*')],
  },
  npm: {
    description: 'npm packages: download from the registries of npm and Yarn, and audits',
    url_prefixes: [
      ...readOnly(name('registry', 'npmjs', 'org')),
      { host: name('registry', 'npmjs', 'org'), path: '/-/npm/v1/security/*', methods: ['POST'] },
      ...readOnly(name('registry', 'yarnpkg', 'com')),
    ],
  },
  github: {
    description: 'GitHub: clone, push, API, releases and raw files',
    domains: ['github.com', 'api.github.com', 'uploads.github.com'],
    url_prefixes: [
      ...readOnly('codeload.github.com'),
      ...readOnly('raw.githubusercontent.com'),
      ...readOnly('objects.githubusercontent.com'),
      ...readOnly('release-assets.githubusercontent.com'),
      ...readOnly('media.githubusercontent.com'),
      ...readOnly('github-cloud.githubusercontent.com'),
    ],
  },
  debian: {
    description: 'Debian packages: download from the mirror network, security updates and the snapshot archive',
    url_prefixes: [
      ...readOnly(name('deb', 'debian', 'org')),
      ...readOnly(name('security', 'debian', 'org')),
      ...readOnly(name('snapshot', 'debian', 'org'), '/archive/*'),
    ],
  },
  crates: {
    description: 'Rust crates and toolchains: download',
    url_prefixes: [
      ...readOnly('crates.io', '/api/v1/*'),
      ...readOnly('index.crates.io'),
      ...readOnly('static.crates.io'),
      ...readOnly('static.rust-lang.org'),
    ],
  },
  go: {
    description: 'Go modules and toolchains: download from the module proxy and the checksum database',
    url_prefixes: [...readOnly(name('proxy', 'golang', 'org')), ...readOnly(name('sum', 'golang', 'org'))],
  },
} as const satisfies Record<string, ReadyPolicy>

export type ReadyPolicyName = keyof typeof READY_POLICIES
