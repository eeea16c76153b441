// OpenCode: `opencode run --format json` with one JSON object per line on stdout. Its configuration is in a variable, which wins over every file.
import type { AgentAdapter, AgentCommand, AgentRun, ResolvedMcp } from './adapter.ts'
import { COMMON_ENV } from './environment.ts'
import { guarded } from './opencode-guard.ts'
import { opencodeParser } from './opencode-parser.ts'

export const opencode: AgentAdapter = { agent: 'opencode', launch, parser: opencodeParser }

function launch(run: AgentRun): AgentCommand {
  const argv = [
    run.program,
    // A session without a title costs one more request to a model.
    ...(run.isInteractive ? [] : ['run', '--format', 'json', ...(run.resume === null ? ['--title', 'Task'] : [])]),
    ...(run.resume === null ? [] : ['--session', run.resume]),
    ...(run.model === null ? [] : ['--model', modelOf(run.model, providerOf(run))]),
  ]
  return {
    argv: run.trustRepoConfig ? argv : guarded(argv),
    env: {
      ...COMMON_ENV,
      XDG_DATA_HOME: `${run.home}/.local/share`,
      XDG_CONFIG_HOME: `${run.home}/.config`,
      XDG_CACHE_HOME: `${run.home}/.cache`,
      XDG_STATE_HOME: `${run.home}/.local/state`,
      OPENCODE_CONFIG_CONTENT: JSON.stringify(config(run)),
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
      OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
      OPENCODE_DISABLE_SHARE: '1',
      OPENCODE_DISABLE_TERMINAL_TITLE: '1',
      // SECURITY: opencode.json and .opencode/ of a repository can set the endpoint and the permissions, and start MCP servers.
      ...(!run.trustRepoConfig && { OPENCODE_DISABLE_PROJECT_CONFIG: '1', OPENCODE_PURE: '1' }),
    },
    files: [],
  }
}

type Provider = 'anthropic' | 'openai'

const providerOf = (run: AgentRun): Provider => (run.credentialEnv === 'OPENAI_API_KEY' ? 'openai' : 'anthropic')

/** OpenCode names a model with its provider. */
const modelOf = (model: string, provider: Provider): string => (model.includes('/') ? model : `${provider}/${model}`)

function config(run: AgentRun): object {
  const provider = providerOf(run)
  const id = run.model === null ? null : modelOf(run.model, provider).replace(`${provider}/`, '')
  return {
    autoupdate: false,
    share: 'disabled',
    // Otherwise it may take a model of a provider without a key, for nothing, at the price of the data.
    enabled_providers: [provider],
    provider: {
      [provider]: {
        options: run.baseUrl === null ? {} : { baseURL: run.baseUrl },
        // A gateway may have models that the catalogue does not know.
        ...(run.baseUrl !== null && id !== null && { models: { [id]: {} } }),
      },
    },
    // Nobody answers: a class of permissions that is not allowed here makes the run wait for ever.
    permission: {
      '*': 'allow',
      question: 'deny',
      ...(!run.allowWebTools && { webfetch: 'deny', websearch: 'deny', codesearch: 'deny' }),
    },
    // Without the configuration of the project, OpenCode also leaves out its AGENTS.md, which is only text.
    ...(!run.trustRepoConfig && { instructions: [`${run.cwd}/AGENTS.md`] }),
    mcp: Object.fromEntries(Object.entries(run.mcp).map(([name, server]) => [name, mcpServer(server)])),
  }
}

function mcpServer(server: ResolvedMcp): object {
  if ('command' in server) return { type: 'local', command: server.command, environment: server.env, enabled: true }
  const headers = server.bearerEnv === null ? {} : { Authorization: `Bearer {env:${server.bearerEnv}}` }
  return { type: 'remote', url: server.url, headers, oauth: false, enabled: true }
}
