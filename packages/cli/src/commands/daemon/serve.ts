import type { Command, Environment } from '../../command.ts'
import { daemonArgv } from '../../daemon/daemon-program.ts'
import { CONFIG_FLAGS } from '../../generated/config-flags.ts'
import { noArguments } from '../../parser/parse.ts'

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
  async run(input, { env }) {
    noArguments(input)
    return becomeDaemon(['serve', ...input.argv.filter(word => word !== '--quiet' && word !== '-q')], env)
  },
}

/** This process becomes the daemon: signals reach it, and whoever supervises this process supervises the daemon. */
function becomeDaemon(args: readonly string[], env: Environment): never {
  const argv = daemonArgv(...args)
  const set = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined)
  if (process.execve === undefined) throw new Error('this Node cannot replace itself')
  return process.execve(argv[0], argv, Object.fromEntries(set))
}
