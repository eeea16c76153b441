// One run of the command line: finds the command, parses its flags, runs it, and turns an error into a message and an exit code.
import type { Command, Context, Input } from './command.ts'
import { isCommand, loadCommand } from './commands.ts'
import { optionsOf, parseInput, splitCommand, text, unknownCommand } from './parser/parse.ts'

/** The command that runs, for error messages; undefined until it is known. */
type Named = { name: string; command: Command; argv: readonly string[] } | undefined

export async function main(): Promise<void> {
  exitOnBrokenPipe(process.stdout)
  const argv = process.argv.slice(2)
  const { name, rest } = splitCommand(argv)
  let named: Named
  try {
    if (name === undefined) process.exitCode = await runBare(rest, process.env)
    else if (name === '__complete') process.exitCode = await complete(rest, process.env)
    else {
      if (!isCommand(name)) throw unknownCommand(name)
      named = { name, command: await loadCommand(name), argv: rest }
      process.exitCode = await run(named, process.env)
    }
  } catch (error) {
    process.exitCode = await fail(error, named, { env: process.env, isJson: beforeDashes(rest).includes('--json') })
  }
}

async function run(named: NonNullable<Named>, env: Context['env']): Promise<number> {
  const { name, command, argv } = named
  const input = parseInput(argv, optionsOf(command, argv))
  if (input.flags.help) return showHelp(command, name, input.args[0])
  return runWithNote(command, input, context(env, input.flags, named))
}

/** Notes that the daemon runs with an older configuration, before a change and after an error of the daemon. */
async function runWithNote(command: Command, input: Input, self: Context): Promise<number> {
  const note = lazy(async () => (await import('./daemon/running-daemon.ts')).noteOutdated(self))
  const isChange = command.changes === true || command.changes?.includes(input.args[0] ?? '')
  const connect: Context['connect'] = async () => {
    const client = await self.connect()
    if (isChange) await note()
    return client
  }
  try {
    return (await command.run(input, { ...self, connect })) ?? 0
  } catch (error) {
    const { isFromDaemon } = await import('./daemon/running-daemon.ts')
    if (isFromDaemon(error)) await note()
    throw error
  }
}

/** Runs without a command: --version, or help. */
async function runBare(rest: readonly string[], env: Context['env']): Promise<number> {
  const { flags } = parseInput(rest, { version: { type: 'boolean', about: '' } })
  const command = await loadCommand(flags.version ? 'version' : 'help')
  return (await command.run({ flags, args: [], rest: undefined, argv: rest }, context(env, flags, undefined))) ?? 0
}

async function complete(words: readonly string[], env: Context['env']): Promise<number> {
  return (await import('./complete/complete.ts')).complete(words, context(env, {}, undefined))
}

async function showHelp(command: Command, name: string, action = ''): Promise<number> {
  const { commandHelp, partOf } = await import('./parser/help-text.ts')
  process.stdout.write(commandHelp(name, partOf(command, action) ?? command, process.stdout))
  return 0
}

async function fail(error: unknown, named: Named, options: { env: Context['env']; isJson: boolean }): Promise<number> {
  const [{ report }, { withHelp }] = await Promise.all([import('./output/report.ts'), import('./output/next-step.ts')])
  errorStream()
  const explained = named ? await withHelp(error, named, options.env) : error
  return report(explained, { isDebug: Boolean(options.env.SANDGLASS_DEBUG), isJson: options.isJson })
}

function context(env: Context['env'], flags: Record<string, unknown>, named: Named): Context {
  const configPath = text(typeof flags.config === 'string' ? flags.config : undefined)
  const isJson = flags.json === true
  const quiet = flags.quiet === true || isJson
  const self: Context = {
    env,
    json: isJson,
    quiet,
    configPath,
    settings: lazy(async () => (await import('./daemon/settings.ts')).loadSettings(configPath, env)),
    connect: async () => (await import('./daemon/connect.ts')).connect(self),
    print: output => void process.stdout.write(output),
    say: line => {
      if (!quiet) errorStream().write(line)
    },
    report: error => fail(error, named, { env, isJson }),
  }
  return self
}

/** Calls `load` at the first call, and returns the same promise at every call. */
function lazy<T>(load: () => Promise<T>): () => Promise<T> {
  let loaded: Promise<T> | undefined
  return () => {
    loaded ??= load()
    return loaded
  }
}

const beforeDashes = (argv: readonly string[]) => (argv.includes('--') ? argv.slice(0, argv.indexOf('--')) : argv)

/** Exits without an error message when the reader has gone, as in `sandglass ls | head -1`. 141 is a shell's code for SIGPIPE. */
function exitOnBrokenPipe(stream: NodeJS.WriteStream): void {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit(141)
  })
}

/** Opens stderr at its first use, since opening it takes time. */
function errorStream(): NodeJS.WriteStream {
  if (process.stderr.listenerCount('error') === 0) exitOnBrokenPipe(process.stderr)
  return process.stderr
}
