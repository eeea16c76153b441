// The flags that exec and run share.
import type { ProcessOptions, TerminalSize } from '@sandglass/sdk'
import type { Flag, Values } from '../command.ts'
import { parseDuration } from '../parser/duration.ts'
import { text } from '../parser/parse.ts'
import { terminalSize } from '../terminal/attach-terminal.ts'
import { hasStdin } from './stdin.ts'

export const PROCESS_FLAGS = {
  timeout: { type: 'string', value: 'DURATION', about: 'end the command after this time, like 30s or 5m; no limit by default' },
  tty: { type: 'boolean', short: 't', about: 'run the program on a terminal' },
  user: { type: 'string', choices: ['sandbox', 'root'], about: 'user inside the session' },
  cwd: { type: 'string', value: 'PATH', about: 'working directory of the command' },
  raw: { type: 'boolean', about: 'print the output unchanged, with all escape sequences' },
  stdin: { type: 'boolean', about: 'pass stdin on even if it is neither a pipe nor a file; --no-stdin never passes it on' },
} as const satisfies Record<string, Flag>

export type ProcessSettings = {
  timeoutMs: number | undefined
  user: ProcessOptions['user']
  cwd: string | undefined
  /** The size of our terminal, with -t. */
  tty: TerminalSize | undefined
  hasStdin: boolean
  isRaw: boolean
}

export function processSettings(flags: Values): ProcessSettings {
  const timeout = text(flags.timeout)
  return {
    timeoutMs: timeout === undefined ? undefined : parseDuration(timeout, 's', '--timeout'),
    user: text(flags.user) as ProcessOptions['user'],
    cwd: text(flags.cwd),
    tty: flags.tty ? terminalSize() : undefined,
    hasStdin: typeof flags.stdin === 'boolean' ? flags.stdin : hasStdin(),
    isRaw: flags.raw === true,
  }
}
