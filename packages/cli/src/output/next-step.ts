// The next step that an error shows on the command line.
import { SandglassError, SESSION_ID, SESSION_NAME } from '@sandglass/contract/tables'
import type { Command, Environment, Noun } from '../command.ts'
import { optionsOf, parseInput, suggestion, UsageError, writtenFlag } from '../parser/parse.ts'

type Run = { name: string; command: Command; argv: readonly string[] }

/** Rewords an error for the command line: names flags instead of fields, points to the help of the command, suggests a known name. */
export async function withHelp(error: unknown, run: Run, env: Environment): Promise<unknown> {
  if (error instanceof UsageError) return error.next === undefined ? new UsageError(error.message, helpOf(run)) : error
  if (!(error instanceof SandglassError)) return error
  if (error.is('SESSION_NOT_FOUND')) return withNearestSession(error, run, env)
  if (error.is('POLICY_NOT_FOUND')) {
    const meant = await nearestName('policy', error.detail.name, run, env)
    return meant === undefined ? error : error.with({}, `${error.message}; did you mean ${meant}?`)
  }
  if (!error.is('INVALID_REQUEST')) return error
  const invalid = error.message.startsWith('id ') ? invalidName(run) : undefined
  if (invalid !== undefined)
    return withNearestSession(new SandglassError('SESSION_NOT_FOUND', { id: invalid }, { cause: error }), run, env)
  return requestWithHelp(error, run)
}

const helpOf = ({ name }: Run) => `\`sandglass help ${name}\` shows its usage`

function requestWithHelp(error: SandglassError<'INVALID_REQUEST'>, run: Run): SandglassError {
  const { name } = run
  // A field, or an item of a list, whose flag is in the singular; a value in quotes follows its flag without a colon.
  const message = error.message.replace(
    /(^|; )([a-z_]+)(\.\d+)?(:(?= )(?: (?="))?|(?= ))/g,
    (all, before: string, plain: string, item: string | undefined, colon: string) => {
      const flag = (item === undefined ? plain : plain.replace(/ies$/, 'y').replace(/s$/, '')).replaceAll('_', '-')
      const known = flagFor(flag, run)
      if (known === undefined || (before !== '' && item === undefined)) return all
      return `${before}--${written(known, run)}${colon.replace(': ', ' ')}`
    },
  )
  const next = error.detail.next ?? `\`sandglass help ${name}\` lists the flags and their ranges`
  return error.with({ next }, message)
}

/** The flag of a field, which may lack the unit in its name: max_cost_usd is --max-cost. One that was given comes first. */
function flagFor(flag: string, { command, argv }: Run): string | undefined {
  const { flags } = parseInput(argv, optionsOf(command, argv))
  const names = [flag, flag.replace(/-(sec|usd)$/, '')].filter(name => Object.hasOwn(command.options, name))
  return names.find(name => flags[name] !== undefined) ?? names[0]
}

const written = (flag: string, { command, argv }: Run) =>
  writtenFlag(flag, parseInput(argv, optionsOf(command, argv)).flags, command.options)

/** The argument that is neither a valid id nor a valid name. */
const invalidName = ({ command, argv }: Run): string | undefined =>
  parseInput(argv, optionsOf(command, argv)).args.find(word => !SESSION_ID.test(word) && !SESSION_NAME.test(word))

async function withNearestSession(
  error: SandglassError<'SESSION_NOT_FOUND'>,
  run: Run,
  env: Environment,
): Promise<SandglassError> {
  const meant = await nearestName('session', error.detail.id, run, env)
  if (meant === undefined) return error
  return error.with({ next: `did you mean ${meant}? \`sandglass ls\` lists the sessions` })
}

/** The name that the daemon knows and that was probably meant. */
async function nearestName(noun: Noun, given: string, { command, argv }: Run, env: Environment): Promise<string | undefined> {
  const { config } = parseInput(argv, optionsOf(command, argv)).flags
  const [{ namesOf }, { loadSettings }] = await Promise.all([
    import('../complete/candidates.ts'),
    import('../daemon/settings.ts'),
  ])
  const known = await namesOf(noun, { settings: () => loadSettings(typeof config === 'string' ? config : undefined, env) })
  return suggestion(
    given.toLowerCase(),
    known.map(({ word }) => word),
  )
}
