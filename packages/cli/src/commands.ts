import type { Command } from './command.ts'

/** Every command, in the order help shows them. A run loads one. */
export const COMMANDS = {
  new: () => import('./commands/new.ts'),
  ls: () => import('./commands/ls.ts'),
  inspect: () => import('./commands/inspect.ts'),
  exec: () => import('./commands/exec.ts'),
  shell: () => import('./commands/shell.ts'),
  cp: () => import('./commands/cp.ts'),
  logs: () => import('./commands/logs.ts'),
  ports: () => import('./commands/ports.ts'),
  forward: () => import('./commands/forward.ts'),
  pause: () => import('./commands/pause.ts'),
  resume: () => import('./commands/resume.ts'),
  start: () => import('./commands/start.ts'),
  stop: () => import('./commands/stop.ts'),
  renew: () => import('./commands/renew.ts'),
  resize: () => import('./commands/resize.ts'),
  rm: () => import('./commands/rm.ts'),
  image: () => import('./commands/image.ts'),
  secret: () => import('./commands/secret.ts'),
  serve: () => import('./commands/serve.ts'),
  shutdown: () => import('./commands/shutdown.ts'),
  init: () => import('./commands/init.ts'),
  config: () => import('./commands/config.ts'),
  doctor: () => import('./commands/doctor.ts'),
  completion: () => import('./commands/completion.ts'),
  version: () => import('./commands/version.ts'),
  help: () => import('./commands/help.ts'),
} as const satisfies Record<string, () => Promise<{ command: Command }>>

export type CommandName = keyof typeof COMMANDS
export const COMMAND_NAMES = Object.keys(COMMANDS) as CommandName[]

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
