// The flags of `run -a`, and the task that they describe.
import { ON_BUSY, OUTCOMES, TASK_REASONS } from '@sandglass/contract/tables'
import type { TaskOptions } from '@sandglass/sdk'
import type { Flag, Values } from '../command.ts'
import { AGENT_FLAG, agentNames } from '../parser/agent-names.ts'
import { parseDuration } from '../parser/duration.ts'
import { text, texts, usage } from '../parser/parse.ts'
import { someSessionOptions, specFromFlags } from '../parser/spec-from-flags.ts'
import { readMcpFile } from './mcp-file.ts'
import { checkedPrompt } from './prompt.ts'

/** What a task can say about its session. */
const { env, ...sessionFlags } = someSessionOptions(
  ...[
    'image',
    'backend',
    'cpus',
    'cpu-cores',
    'memory',
    'memory-mb',
    'disk',
    'disk-mb',
    'mount',
    'policy',
    'secret',
    'env',
    'label',
  ],
)

export const TASK_FLAGS: Readonly<Record<string, Flag>> = {
  agent: {
    ...AGENT_FLAG,
    about: 'coding agent: claude, codex or opencode; several of them (-a claude,codex) run the prompt side by side',
  },
  prompt: { type: 'string', short: 'p', value: 'TEXT', about: 'what the agent is asked to do; - reads it from stdin' },
  timeout: {
    type: 'string',
    short: 't',
    value: 'DURATION',
    about: 'end the agent after this time, like 30m; one hour by default',
  },
  repo: {
    type: 'string',
    value: 'PATH',
    isPath: true,
    about:
      'send what is committed in this git repository to /workspace; the commits of the agent come back as the branch sandglass/TASK',
  },
  context: {
    type: 'string',
    value: 'ID',
    names: 'context',
    about: 'conversation to continue, under a name of your own; a new one when absent',
  },
  model: { type: 'string', value: 'MODEL', about: 'model; that of the context when absent, else the default of the agent' },
  detach: { type: 'boolean', short: 'd', about: 'print the id of the task and leave it running' },
  session: { type: 'string', value: 'NAME', names: 'session', about: 'work in this running session' },
  file: {
    type: 'string',
    multiple: true,
    value: 'LOCAL:PATH',
    isPath: true,
    about: 'first copy a file of this machine to PATH in the session; may be repeated',
  },
  mcp: {
    type: 'string',
    value: 'FILE',
    isPath: true,
    about: 'JSON file with MCP servers that the agent may use, like .mcp.json',
  },
  'max-turns': { type: 'string', value: 'N', about: 'end the agent after this many turns' },
  'max-cost': { type: 'string', value: 'USD', about: 'end the agent when it has cost this much' },
  'context-max-cost': {
    type: 'string',
    value: 'USD',
    about: 'start no further task of the context when all have cost this much',
  },
  attempts: { type: 'string', value: 'N', about: 'run the prompt this often, each time in a session of its own' },
  check: {
    type: 'string',
    value: 'COMMAND',
    about: 'run this command line in the session afterwards; the task is good if it exits with 0',
  },
  retries: {
    type: 'string',
    value: 'N',
    about: 'try again this often, after what --retry-on names',
  },
  'retry-on': {
    type: 'string',
    multiple: true,
    value: 'REASON',
    suggested: [...OUTCOMES, ...TASK_REASONS],
    about: 'outcome or reason that is tried again; rate_limited, overloaded and model_unreachable when absent; may be repeated',
  },
  'on-busy': {
    type: 'string',
    choices: ON_BUSY,
    about: 'when another task of the context runs: wait for it (the default), or refuse',
  },
  resume: { type: 'boolean', isOn: true, about: 'begin a new conversation in the context, with the files of the old one' },
  'recovery-prompt': {
    type: 'string',
    value: 'TEXT',
    about: 'if the conversation has become too long or is damaged, try once more with this prompt in a new one',
  },
  'trust-repo-config': { type: 'boolean', about: "let the agent's configuration files in the repository take effect" },
  'allow-web-tools': {
    type: 'boolean',
    about: 'let the agent use web tools of the model provider, which do not pass the policies',
  },
  'keep-session': { type: 'boolean', about: 'keep the session running after the task' },
  'base-url': { type: 'string', value: 'URL', about: "gateway in place of the model's own address" },
  ...sessionFlags,
  env: { ...env, type: 'string', short: 'e', about: 'environment variable; may be repeated' },
}

/** The task that the flags describe, without its uploads. The daemon checks the ranges. */
export function taskFromFlags(flags: Values, prompt: string): TaskOptions {
  const agents = agentNames(flags.agent)
  const timeout = text(flags.timeout)
  const recovery = text(flags['recovery-prompt'])
  const mcp = text(flags.mcp)
  const { image, backend, cpuCores, memoryMb, diskMb, mounts, policies, secrets, env: variables, labels } = specFromFlags(flags)
  const retryOn = texts(flags['retry-on'])
  return defined({
    prompt,
    agent: agents.length === 1 ? agents[0] : undefined,
    agents: agents.length > 1 ? agents : undefined,
    context: text(flags.context),
    session: text(flags.session),
    model: text(flags.model),
    resume: flags.resume === false ? false : undefined,
    recoveryPrompt: recovery === undefined ? undefined : checkedPrompt(recovery, '--recovery-prompt'),
    ...{ image, backend, cpuCores, memoryMb, diskMb, mounts, policies, secrets, env: variables, labels },
    baseUrl: text(flags['base-url']),
    mcp: mcp === undefined ? undefined : readMcpFile(mcp),
    trustRepoConfig: flags['trust-repo-config'] === true || undefined,
    allowWebTools: flags['allow-web-tools'] === true || undefined,
    timeoutSec: timeout === undefined ? undefined : Math.ceil(parseDuration(timeout, 's', '--timeout') / 1000),
    maxTurns: numberOf(flags, 'max-turns'),
    maxCostUsd: numberOf(flags, 'max-cost'),
    contextMaxCostUsd: numberOf(flags, 'context-max-cost'),
    attempts: numberOf(flags, 'attempts'),
    retries: numberOf(flags, 'retries'),
    retryOn: retryOn.length === 0 ? undefined : (retryOn as TaskOptions['retryOn']),
    check: text(flags.check),
    onBusy: text(flags['on-busy']) as TaskOptions['onBusy'],
    keepSession: flags['keep-session'] === true || undefined,
  })
}

function numberOf(flags: Values, name: string): number | undefined {
  const given = text(flags[name])?.replace(/^\$/, '')
  if (given === undefined) return undefined
  if (given.trim() === '' || !Number.isFinite(Number(given))) throw usage(`--${name} ${given} is not a number`)
  return Number(given)
}

/** Without the fields that were not given, so that the daemon's defaults apply. */
const defined = (fields: { [Name in keyof TaskOptions]: TaskOptions[Name] | undefined }): TaskOptions =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as TaskOptions
