// The next step that an error shows on the command line.
import { SandglassError, SESSION_ID, SESSION_NAME } from '@sandglass/contract/tables'
import type { Command, Environment } from '../command.ts'
import { optionsOf, parseInput, suggestion, UsageError, writtenFlag } from '../parser/parse.ts'

type Run = { name: string; command: Command; argv: readonly string[] }

/** Rewords an error for the command line: names flags instead of fields, points to the help of the command, suggests a session. */
export async function withHelp(error: unknown, run: Run, env: Environment): Promise<unknown> {
  if (error instanceof UsageError) return error.next === undefined ? new UsageError(error.message, helpOf(run)) : error
  if (!(error instanceof SandglassError)) return error
  if (error.is('SESSION_NOT_FOUND')) return withNearestSession(error, run, env)
  if (!error.is('INVALID_REQUEST')) return error
  const invalid = error.message.startsWith('id ') ? invalidName(run) : undefined
  if (invalid !== undefined)
    return withNearestSession(new SandglassError('SESSION_NOT_FOUND', { id: invalid }, { cause: error }), run, env)
  return requestWithHelp(error, run)
}

const helpOf = ({ name }: Run) => `\`sandglass help ${name}\` shows its usage`

function requestWithHelp(error: SandglassError<'INVALID_REQUEST'>, run: Run): SandglassError {
  const { name, command } = run
  const field = /^[a-z_]+(?=:? )/.exec(error.message)?.[0] ?? ''
  const flag = field.replaceAll('_', '-')
  const message = Object.hasOwn(command.options, flag)
    ? `--${written(flag, run)}${error.message.slice(field.length)}`
    : error.message
  const next = error.detail.next ?? `\`sandglass help ${name}\` lists the flags and their ranges`
  return error.with({ next }, message)
}

const written = (flag: string, { command, argv }: Run) =>
  writtenFlag(flag, parseInput(argv, optionsOf(command, argv)).flags, command.options)

/** The argument that is neither a valid id nor a valid name. */
const invalidName = ({ command, argv }: Run): string | undefined =>
  parseInput(argv, optionsOf(command, argv)).args.find(word => !SESSION_ID.test(word) && !SESSION_NAME.test(word))

async function withNearestSession(
  error: SandglassError<'SESSION_NOT_FOUND'>,
  { command, argv }: Run,
  env: Environment,
): Promise<SandglassError> {
  const { config } = parseInput(argv, optionsOf(command, argv)).flags
  const [{ sessionNames }, { loadSettings }] = await Promise.all([
    import('../complete/candidates.ts'),
    import('../daemon/settings.ts'),
  ])
  const names = await sessionNames({ settings: () => loadSettings(typeof config === 'string' ? config : undefined, env) })
  const meant = suggestion(error.detail.id.toLowerCase(), names)
  if (meant === undefined) return error
  return error.with({ next: `did you mean ${meant}? \`sandglass ls\` lists the sessions` })
}
