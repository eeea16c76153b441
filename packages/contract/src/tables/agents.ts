// Coding agents: which there are, what a run of one is called, and how it can end. Free of zod.
import { SECRET_PRESET_SETTINGS, type SecretPresetSettings } from './secret-presets.ts'

export const AGENTS = ['claude', 'codex', 'opencode'] as const
export type AgentName = (typeof AGENTS)[number]

export const TASK_ID = /^task_[a-z0-9]{16}$/
export const UPLOAD_ID = /^upl_[a-z0-9]{16}$/
export const CONTEXT_ID_RULE = '1 to 256 characters, without control characters'
/** Label of the session that a context owns. */
export const CONTEXT_LABEL = 'sandglass/context'
export const AGENT_VERSION = /^\d{1,6}\.\d{1,6}\.\d{1,6}(-[0-9A-Za-z.-]{1,64})?$/

/** How a task ended. Expected failures are outcomes, not errors. */
export const OUTCOMES = ['SUCCESS', 'TIMEOUT', 'PROMPT_TOO_LONG', 'SESSION_CORRUPTED', 'CONTAINER_FAILED'] as const
export type Outcome = (typeof OUTCOMES)[number]

/** Why a task has its outcome. */
export const TASK_REASONS = [
  'completed',
  'timeout',
  'stopped',
  'prompt_too_long',
  'bad_request',
  'auth',
  'rate_limited',
  'overloaded',
  'model_unreachable',
  'budget',
  'max_turns',
  'out_of_memory',
  'disk_full',
  'crashed',
  'no_result',
  'start_failed',
  'machine_lost',
] as const
export type TaskReason = (typeof TASK_REASONS)[number]

/** Outcomes after which the conversation of the agent cannot go on: a new one with a recovery prompt can. */
export const isRecoverable = (outcome: Outcome | null, reason: TaskReason | null): boolean =>
  outcome === 'PROMPT_TOO_LONG' || (outcome === 'SESSION_CORRUPTED' && reason === 'bad_request')

export const EVENT_TYPES = ['status', 'init', 'text', 'tool_use', 'tool_result', 'usage', 'result', 'error', 'other'] as const
export type TaskEventType = (typeof EVENT_TYPES)[number]

/** What a busy context does with one more task. */
export const ON_BUSY = ['wait', 'refuse'] as const

export interface AgentFacts {
  readonly title: string
  /** Ready-made policy with the hosts that the agent needs. */
  readonly policy: AgentName
  /** Folder below the home of the sandbox's user in which the agent keeps its conversations. */
  readonly stateFolder: string
  /** Secrets that the agent can use, first choice first: one of them has to exist. */
  readonly credentials: readonly AgentCredential[]
  /** Variable with the address of a gateway in place of the model's own API; null: by a configuration file. */
  readonly baseUrlVariable: string | null
}

export interface AgentCredential {
  /** Name of the secret. */
  readonly secret: string
  /** For people. */
  readonly about: string
  readonly settings: SecretPresetSettings
}

const anthropicKey = (secret: string): AgentCredential => ({
  secret,
  about: 'an API key of Anthropic',
  settings: SECRET_PRESET_SETTINGS.anthropic,
})
const openaiKey = (secret: string): AgentCredential => ({
  secret,
  about: 'an API key of OpenAI',
  settings: SECRET_PRESET_SETTINGS.openai,
})

export const AGENT_FACTS: Readonly<Record<AgentName, AgentFacts>> = {
  claude: {
    title: 'Claude Code',
    policy: 'claude',
    stateFolder: '.claude',
    credentials: [
      anthropicKey('agent.claude'),
      {
        secret: 'agent.claude.subscription',
        about: 'the token that `claude setup-token` prints',
        settings: { ...SECRET_PRESET_SETTINGS.anthropic, env: 'CLAUDE_CODE_OAUTH_TOKEN', headers: ['authorization'] },
      },
    ],
    baseUrlVariable: 'ANTHROPIC_BASE_URL',
  },
  codex: {
    title: 'Codex',
    policy: 'codex',
    stateFolder: '.codex',
    credentials: [
      openaiKey('agent.codex'),
      {
        secret: 'agent.codex.subscription',
        about: 'the access token of a ChatGPT login, from tokens.access_token in ~/.codex/auth.json',
        settings: {
          ...SECRET_PRESET_SETTINGS.openai,
          env: 'CODEX_ACCESS_TOKEN',
          scopes: ['chatgpt.com/backend-api/*'],
        },
      },
    ],
    baseUrlVariable: null,
  },
  opencode: {
    title: 'OpenCode',
    policy: 'opencode',
    stateFolder: '.local/share/opencode',
    credentials: [anthropicKey('agent.opencode'), openaiKey('agent.opencode.openai')],
    baseUrlVariable: null,
  },
}
