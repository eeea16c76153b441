import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import type { Command } from '../command.ts'
import { daemonArgv } from '../daemon-entry.ts'
import { CONFIG_FLAGS } from '../generated/config-flags.ts'
import { noArguments } from '../parse.ts'

/** The daemon's flags are the configuration's keys. They are handed on as they are; their values are checked there. */
export const command: Command = {
  summary: 'Run the daemon in the foreground',
  usage: ['[FLAGS]', '--print-config'],
  about: `The other commands start a daemon by themselves when none runs, so this is for a service, or to watch its log.
Every key of the configuration is a flag. A list may be given as one text with commas, or with the flag again and again:
  sandglass serve --listen unix --listen 127.0.0.1:8080 --defaults-memory-mb 1GB`,
  options: {
    ...CONFIG_FLAGS,
    'print-config': { type: 'boolean', about: 'show the configuration as JSON, with where each value comes from, and end' },
  },
  async run(input) {
    noArguments(input)
    return runDaemon(['serve', ...input.argv.filter(word => word !== '--quiet' && word !== '-q')])
  },
}

/** Runs the daemon's program with this terminal, and gives its exit code. Signals that come here go on to it. */
function runDaemon(args: readonly string[]): Promise<number> {
  const [program, ...rest] = daemonArgv(...args)
  const child = spawn(program, rest, { stdio: 'inherit' })
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal))
  child.once('error', reject)
  child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal ?? 'SIGKILL']))
  return promise
}
