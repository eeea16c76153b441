// Codex: `codex exec --json` with one JSON object per line on stdout. It is configured by one file, which no flag repeats.
import type { AgentAdapter, AgentCommand, AgentRun, ResolvedMcp } from './adapter.ts'
import { codexParser } from './codex-parser.ts'
import { COMMON_ENV } from './environment.ts'
import { priceOf } from './prices.ts'
import { type Toml, toml } from './toml.ts'

export const codex: AgentAdapter = { agent: 'codex', launch, parser: codexParser }

const OPENAI = 'https://api.openai.com/v1'
/** Takes the token of a ChatGPT login in place of a key. */
const CHATGPT = 'https://chatgpt.com/backend-api/codex'

function launch(run: AgentRun): AgentCommand {
  const folder = `${run.home}/.codex`
  const flags = [
    '--dangerously-bypass-approvals-and-sandbox',
    ...(run.trustRepoConfig ? ['--dangerously-bypass-hook-trust'] : []),
  ]
  const headless = ['--json', '--skip-git-repo-check', ...flags]
  const argv = run.isInteractive
    ? [...(run.resume === null ? [] : ['resume']), ...flags, ...(run.resume === null ? [] : [run.resume])]
    : ['exec', ...(run.resume === null ? [] : ['resume']), ...headless, ...(run.resume === null ? [] : [run.resume]), '-']
  return {
    argv: [run.program, ...argv],
    env: { ...COMMON_ENV, CODEX_HOME: folder },
    files: [
      { path: `${folder}/config.toml`, text: toml(config(run)), mode: '600' },
      { path: `${folder}/AGENTS.md`, text: run.trustRepoConfig ? '' : readAgentsFile(run.cwd), mode: '600' },
    ],
  }
}

/** In a project that is not trusted, Codex leaves out AGENTS.md too, which is only text. */
const readAgentsFile = (cwd: string): string =>
  `If there is a file ${cwd}/AGENTS.md, read it before you begin: it has the instructions of the project.\n`

function config(run: AgentRun): Toml {
  return {
    ...(run.model !== null && { model: run.model }),
    model_provider: 'sandglass',
    approval_policy: 'never',
    sandbox_mode: 'danger-full-access',
    web_search: run.allowWebTools ? 'live' : 'disabled',
    check_for_update_on_startup: false,
    suppress_unstable_features_warning: true,
    model_providers: { sandglass: provider(run) },
    // SECURITY: only in a trusted project are .codex/config.toml, its hooks, rules and MCP servers read.
    projects: { [run.cwd]: { trust_level: run.trustRepoConfig ? 'trusted' : 'untrusted' } },
    analytics: { enabled: false },
    feedback: { enabled: false },
    notice: { hide_full_access_warning: true },
    features: {
      apps: false,
      plugins: false,
      remote_plugin: false,
      tool_suggest: false,
      skill_mcp_dependency_install: false,
      in_app_updates: false,
      daemon_auto_start: false,
      shell_snapshot: false,
      // Otherwise a run against an API that cannot be reached never ends.
      unbounded_connection_retries: false,
      hooks: run.trustRepoConfig,
      ...budget(run),
    },
    mcp_servers: Object.fromEntries(Object.entries(run.mcp).map(([name, server]) => [name, mcpServer(server)])),
  }
}

/** The built-in provider opens WebSockets first, and wants a login in its interactive screen. */
function provider(run: AgentRun): Toml {
  const isSubscription = run.credentialEnv === 'CODEX_ACCESS_TOKEN'
  return {
    name: 'OpenAI',
    base_url: run.baseUrl ?? (isSubscription ? CHATGPT : OPENAI),
    ...(run.credentialEnv !== null && { env_key: run.credentialEnv }),
    wire_api: 'responses',
    supports_websockets: false,
    request_max_retries: 4,
    stream_max_retries: 4,
    // The header is left out if the session does not have the variable.
    ...(isSubscription && { env_http_headers: { 'chatgpt-account-id': 'CODEX_ACCOUNT_ID' } }),
  }
}

/**
 * Codex stops at a number of weighted tokens: with prices per million as weights, the number is in millionths of a dollar. It does not count
 * cached input, so a run can cost more than its budget by the price of that.
 */
function budget(run: AgentRun): Toml {
  const price = run.model === null ? null : priceOf(run.model)
  if (run.maxCostUsd === null || price === null) return {}
  const limit = Math.max(1, Math.floor(run.maxCostUsd * 1_000_000))
  return {
    rollout_budget: {
      enabled: true,
      limit_tokens: limit,
      reminder_at_remaining_tokens: limit > 1 ? [Math.ceil(limit / 10)] : [],
      sampling_token_weight: price.output,
      prefill_token_weight: price.input,
    },
  }
}

function mcpServer(server: ResolvedMcp): Toml {
  if (!('command' in server))
    return { url: server.url, ...(server.bearerEnv !== null && { bearer_token_env_var: server.bearerEnv }) }
  return {
    command: server.command[0] ?? '',
    args: server.command.slice(1),
    env: server.env,
    env_vars: [...(server.inherit ?? [])],
  }
}
