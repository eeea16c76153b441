import type { Command, Environment } from '../../command.ts'
import { daemonArgv } from '../../daemon/daemon-program.ts'
import { CONFIG_FLAGS } from '../../generated/config-flags.ts'
import { noArguments } from '../../parser/parse.ts'

/** The flags are the keys of the configuration. They are passed to the daemon unchanged, which checks their values. */
export const command: Command = {
  summary: 'Run the daemon in the foreground',
  usage: ['[FLAGS]', '--print-config'],
  about: `Other commands start a daemon in the background when none runs. Use serve to run it as a service, or to watch its log.

Every key of the configuration is a flag. The value of a list is separated by commas, or the flag is repeated:
  sandglass serve --listen unix --listen 127.0.0.1:8080 --defaults-memory-mb 1GB`,
  options: {
    ...CONFIG_FLAGS,
    'print-config': { type: 'boolean', about: 'print the configuration as JSON, with the origin of each value, and exit' },
  },
  async run(input, { env }) {
    noArguments(input)
    return becomeDaemon(['serve', ...input.argv.filter(word => word !== '--quiet' && word !== '-q')], env)
  },
}

/** Replaces this process by the daemon, so that signals reach it and a supervisor of this process supervises the daemon. */
function becomeDaemon(args: readonly string[], env: Environment): never {
  const argv = daemonArgv(...args)
  const set = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined)
  if (process.execve === undefined) throw new Error('this Node cannot replace itself')
  return process.execve(argv[0], argv, Object.fromEntries(set))
}
