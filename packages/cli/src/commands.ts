import type { Command } from './command.ts'

/** Every command, grouped and ordered as help shows them. A run loads only its own command. */
const GROUPED = {
  Sessions: {
    new: () => import('./commands/sessions/new.ts'),
    run: () => import('./commands/sessions/run.ts'),
    ls: () => import('./commands/sessions/ls.ts'),
    inspect: () => import('./commands/sessions/inspect.ts'),
    stats: () => import('./commands/sessions/stats.ts'),
    start: () => import('./commands/sessions/start.ts'),
    stop: () => import('./commands/sessions/stop.ts'),
    pause: () => import('./commands/sessions/pause.ts'),
    resume: () => import('./commands/sessions/resume.ts'),
    renew: () => import('./commands/sessions/renew.ts'),
    resize: () => import('./commands/sessions/resize.ts'),
    rm: () => import('./commands/sessions/rm.ts'),
  },
  'Inside a session': {
    exec: () => import('./commands/inside/exec.ts'),
    interrupt: () => import('./commands/inside/interrupt.ts'),
    shell: () => import('./commands/inside/shell.ts'),
    attach: () => import('./commands/inside/attach.ts'),
    ps: () => import('./commands/inside/ps.ts'),
    kill: () => import('./commands/inside/kill.ts'),
    logs: () => import('./commands/inside/logs.ts'),
    cp: () => import('./commands/inside/cp.ts'),
    ports: () => import('./commands/inside/ports.ts'),
    forward: () => import('./commands/inside/forward.ts'),
  },
  Agents: {
    task: () => import('./commands/task/task.ts'),
    context: () => import('./commands/context/context.ts'),
    agent: () => import('./commands/agent/agent.ts'),
  },
  'Network and secrets': {
    network: () => import('./commands/network/network.ts'),
    policy: () => import('./commands/policy/policy.ts'),
    approval: () => import('./commands/approval/approval.ts'),
    secret: () => import('./commands/secret/secret.ts'),
    ca: () => import('./commands/network/ca.ts'),
  },
  Images: {
    image: () => import('./commands/image/image.ts'),
  },
  'Daemon and host': {
    serve: () => import('./commands/daemon/serve.ts'),
    shutdown: () => import('./commands/daemon/shutdown.ts'),
    init: () => import('./commands/daemon/init.ts'),
    config: () => import('./commands/daemon/config.ts'),
    doctor: () => import('./commands/daemon/doctor.ts'),
    completion: () => import('./commands/daemon/completion.ts'),
    version: () => import('./commands/daemon/version.ts'),
    help: () => import('./commands/daemon/help.ts'),
  },
} as const satisfies Record<string, Record<string, () => Promise<{ command: Command }>>>

const COMMANDS = {
  ...GROUPED.Sessions,
  ...GROUPED['Inside a session'],
  ...GROUPED.Agents,
  ...GROUPED['Network and secrets'],
  ...GROUPED.Images,
  ...GROUPED['Daemon and host'],
}

export type CommandName = keyof typeof COMMANDS
export const COMMAND_NAMES = Object.keys(COMMANDS) as CommandName[]
/** The titles of help and the commands below each. */
export const COMMAND_GROUPS = Object.entries(GROUPED).map(([title, row]) => ({ title, names: Object.keys(row) as CommandName[] }))

export const isCommand = (name: string): name is CommandName => Object.hasOwn(COMMANDS, name)

export async function loadCommand(name: CommandName): Promise<Command> {
  return (await COMMANDS[name]()).command
}

/** Flags of every command; they may also come before the command. */
export const GLOBAL_FLAGS = {
  config: { type: 'string', value: 'FILE', isPath: true, about: 'configuration file; ~/.sandglass/config.yaml by default' },
  json: { type: 'boolean', about: 'print JSON as the API has it: results on stdout, errors on stderr' },
  quiet: { type: 'boolean', short: 'q', about: 'print nothing but errors on stderr' },
  help: { type: 'boolean', short: 'h', about: 'show help' },
} as const satisfies Command['options']
