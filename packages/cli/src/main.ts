// One run of the command line: find the command, read its flags, run it, turn what went wrong into a line and an exit code.
import type { Command, Context, Input } from './command.ts'
import { isCommand, loadCommand } from './commands.ts'
import { parseInput, splitCommand, text, unknownCommand } from './parse.ts'
import { report } from './report.ts'

export async function main(): Promise<void> {
  const env = process.env
  leaveQuietlyOnBrokenPipe()
  try {
    process.exitCode = await run(process.argv.slice(2), env)
  } catch (error) {
    process.exitCode = report(error, { isDebug: Boolean(env.SANDGLASS_DEBUG) })
  }
}

async function run(argv: readonly string[], env: Context['env']): Promise<number> {
  const { name, rest } = splitCommand(argv)
  if (name === undefined) return runBare(rest, env)
  if (name === '__complete') return (await import('./complete.ts')).complete(rest, context(env, {}))
  if (!isCommand(name)) throw unknownCommand(name)
  const command = await loadCommand(name)
  const input = command.passesFlags ? passedInput(rest) : parseInput(rest, command.options)
  if (input.flags.help) return showHelp(command, name)
  return runNoting(command, input, context(env, input.flags))
}

async function runNoting(command: Command, input: Input, self: Context): Promise<number> {
  try {
    return (await command.run(input, self)) ?? 0
  } catch (error) {
    const { isFromDaemon, noteOutdated } = await import('./outdated-note.ts')
    if (isFromDaemon(error)) await noteOutdated(self)
    throw error
  }
}

function passedInput(args: readonly string[]): Input {
  return { flags: { help: args.includes('--help') || args.includes('-h') }, args, rest: undefined }
}

async function runBare(rest: readonly string[], env: Context['env']): Promise<number> {
  const { flags } = parseInput(rest, { version: { type: 'boolean', about: '' } })
  const command = await loadCommand(flags.version ? 'version' : 'help')
  return (await command.run({ flags, args: [], rest: undefined }, context(env, flags))) ?? 0
}

async function showHelp(command: Command, name: string): Promise<number> {
  const { commandHelp } = await import('./help-text.ts')
  process.stdout.write(commandHelp(name, command, process.stdout))
  return 0
}

function context(env: Context['env'], flags: Record<string, unknown>): Context {
  const configPath = text(typeof flags.config === 'string' ? flags.config : undefined)
  const quiet = flags.quiet === true
  const self: Context = {
    env,
    json: flags.json === true,
    quiet,
    configPath,
    settings: async () => (await import('./settings.ts')).loadSettings(configPath, env),
    connect: async options => (await import('./connect.ts')).connect(self, options),
    print: output => void process.stdout.write(output),
    say: line => {
      if (!quiet) process.stderr.write(line)
    },
  }
  return self
}

/** `sandglass ls | head -1`: the reader has what it wanted. 141 is what a shell shows for SIGPIPE. */
function leaveQuietlyOnBrokenPipe(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error
      process.exit(141)
    })
  }
}
