import type { Command } from './command.ts'

/** Every command under the title that help shows it under, in that order. A run loads one. */
const GROUPED = {
  Sessions: {
    new: () => import('./commands/new.ts'),
    run: () => import('./commands/run.ts'),
    ls: () => import('./commands/ls.ts'),
    inspect: () => import('./commands/inspect.ts'),
    stats: () => import('./commands/stats.ts'),
    start: () => import('./commands/start.ts'),
    stop: () => import('./commands/stop.ts'),
    pause: () => import('./commands/pause.ts'),
    resume: () => import('./commands/resume.ts'),
    renew: () => import('./commands/renew.ts'),
    resize: () => import('./commands/resize.ts'),
    rm: () => import('./commands/rm.ts'),
  },
  'Inside a session': {
    exec: () => import('./commands/exec.ts'),
    interrupt: () => import('./commands/interrupt.ts'),
    shell: () => import('./commands/shell.ts'),
    attach: () => import('./commands/attach.ts'),
    ps: () => import('./commands/ps.ts'),
    kill: () => import('./commands/kill.ts'),
    logs: () => import('./commands/logs.ts'),
    cp: () => import('./commands/cp.ts'),
    ports: () => import('./commands/ports.ts'),
    forward: () => import('./commands/forward.ts'),
  },
  'Images and secrets': {
    image: () => import('./commands/image.ts'),
    secret: () => import('./commands/secret.ts'),
  },
  'The daemon and this machine': {
    serve: () => import('./commands/serve.ts'),
    shutdown: () => import('./commands/shutdown.ts'),
    init: () => import('./commands/init.ts'),
    config: () => import('./commands/config.ts'),
    doctor: () => import('./commands/doctor.ts'),
    completion: () => import('./commands/completion.ts'),
    version: () => import('./commands/version.ts'),
    help: () => import('./commands/help.ts'),
  },
} as const satisfies Record<string, Record<string, () => Promise<{ command: Command }>>>

const COMMANDS = {
  ...GROUPED.Sessions,
  ...GROUPED['Inside a session'],
  ...GROUPED['Images and secrets'],
  ...GROUPED['The daemon and this machine'],
}

export type CommandName = keyof typeof COMMANDS
export const COMMAND_NAMES = Object.keys(COMMANDS) as CommandName[]
/** Titles and the names below them. */
export const COMMAND_GROUPS = Object.entries(GROUPED).map(([title, row]) => ({ title, names: Object.keys(row) as CommandName[] }))

export const isCommand = (name: string): name is CommandName => Object.hasOwn(COMMANDS, name)

export async function loadCommand(name: CommandName): Promise<Command> {
  return (await COMMANDS[name]()).command
}

/** Understood after every command and in front of it. */
export const GLOBAL_FLAGS = {
  config: { type: 'string', value: 'FILE', isPath: true, about: 'configuration file; ~/.sandglass/config.yaml when absent' },
  json: { type: 'boolean', about: 'print JSON in the shapes of the API: results on stdout, errors on stderr' },
  quiet: { type: 'boolean', short: 'q', about: 'say nothing on stderr but errors' },
  help: { type: 'boolean', short: 'h', about: 'show help' },
} as const satisfies Command['options']
