import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import type { Command } from '../command.ts'
import { daemonArgv } from '../daemon-entry.ts'

/** The daemon's flags are the configuration's keys, so they are handed on as they are and checked there. */
export const command: Command = {
  summary: 'Run the daemon in the foreground',
  usage: ['[--KEY VALUE]...', '--print-config'],
  about: `Every configuration key is a flag: --data-dir DIR, --listen HOST:PORT, --defaults-memory-mb 1024.
The other commands start a daemon by themselves when none runs.`,
  options: {},
  passesFlags: true,
  run: ({ args }) => runDaemon(['serve', ...args]),
}

/** Runs the daemon's program with this terminal, and gives its exit code. Signals that come here go on to it. */
export function runDaemon(args: readonly string[]): Promise<number> {
  const [program, ...rest] = daemonArgv(...args)
  const child = spawn(program, rest, { stdio: 'inherit' })
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal))
  child.once('error', reject)
  child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal ?? 'SIGKILL']))
  return promise
}
