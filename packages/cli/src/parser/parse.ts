import type { Flag, Input } from '../command.ts'
import { COMMAND_NAMES, GLOBAL_FLAGS } from '../commands.ts'
import { nearest } from './nearest.ts'
import { UsageError } from './usage-error.ts'

/** Splits the command off its arguments. Global flags may stand in front of it. */
export function splitCommand(argv: readonly string[]): { name: string | undefined; rest: string[] } {
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i] ?? ''
    if (word === '--config') i++
    else if (word === '--') break
    else if (!word.startsWith('-')) return { name: word, rest: argv.toSpliced(i, 1) }
  }
  return { name: undefined, rest: [...argv] }
}

/** Reads the arguments of a command by its flags. */
export function parseInput(argv: readonly string[], options: Readonly<Record<string, Flag>>): Input {
  const known: Record<string, Flag> = { ...GLOBAL_FLAGS, ...options }
  const end = argv.indexOf('--')
  const own = end < 0 ? argv : argv.slice(0, end)
  try {
    // An import would load all that util can do, in front of every command.
    const { values, positionals } = process.getBuiltinModule('node:util').parseArgs({
      args: [...own],
      options: known,
      allowPositionals: true,
      allowNegative: true,
    })
    requireChoices(values, known)
    return { flags: withAliases(values, known), args: positionals, rest: end < 0 ? undefined : argv.slice(end + 1), argv }
  } catch (error) {
    throw usageError(error, own, known)
  }
}

function requireChoices(given: Input['flags'], known: Readonly<Record<string, Flag>>): void {
  for (const [name, { choices }] of Object.entries(known)) {
    const wrong = texts(given[name]).find(value => choices?.includes(value) === false)
    if (choices === undefined || wrong === undefined) continue
    const meant = nearest(wrong.toLowerCase(), choices)
    const all = [choices.slice(0, -1).join(', '), choices.at(-1)].join(' or ')
    throw usage(`--${name} must be ${all}, not ${wrong}${meant ? `; did you mean ${meant}?` : ''}`)
  }
}

/** An alias counts as the flag that it stands for, and stays beside it: messages name what was written. */
function withAliases(given: Input['flags'], known: Readonly<Record<string, Flag>>): Input['flags'] {
  const flags = { ...given }
  for (const [name, { aliasOf }] of Object.entries(known)) {
    if (aliasOf === undefined || given[name] === undefined) continue
    if (given[aliasOf] !== undefined) throw usage(`--${name} and --${aliasOf} are the same flag: give one of them`)
    flags[aliasOf] = given[name]
  }
  return flags
}

/** The flag as it was written: its alias if that one was given. */
export function writtenFlag(flag: string, given: Input['flags'], known: Readonly<Record<string, Flag>>): string {
  return Object.keys(known).find(name => known[name]?.aliasOf === flag && given[name] !== undefined) ?? flag
}

/** Without a `next` of its own, the help of the command that runs is the next step. */
export const usage = (issue: string, next?: string) => new UsageError(issue, next)

/** What people try who know other tools. */
export const OTHER_WORDS: Readonly<Record<string, string>> = {
  list: 'ls',
  delete: 'rm',
  destroy: 'rm',
  remove: 'rm',
  create: 'new',
  ssh: 'shell',
  top: 'stats',
}

export function unknownCommand(name: string): UsageError {
  const meant = OTHER_WORDS[name] ?? nearest(name, COMMAND_NAMES)
  return usage(`unknown command ${name}${meant ? `; did you mean ${meant}?` : ''}`, '`sandglass help` lists the commands')
}

/** The one name that most commands take. */
export function oneArgument({ args, rest }: Pick<Input, 'args' | 'rest'>, what: string): string {
  const [first, ...others] = [...args, ...(rest ?? [])]
  if (first === undefined) throw usage(`${what} is missing`)
  if (others.length > 0) throw usage(`unexpected argument ${others[0]}: the command takes one ${what}`)
  return first
}

export function noArguments({ args, rest }: Pick<Input, 'args' | 'rest'>): void {
  const [first] = [...args, ...(rest ?? [])]
  if (first !== undefined) throw usage(`unexpected argument ${first}: the command takes none`)
}

export const text = (value: Input['flags'][string]): string | undefined => (typeof value === 'string' ? value : undefined)
export const texts = (value: Input['flags'][string]): string[] =>
  Array.isArray(value) ? value.filter(item => typeof item === 'string') : typeof value === 'string' ? [value] : []

function usageError(error: unknown, argv: readonly string[], known: Readonly<Record<string, Flag>>): UsageError {
  const { code, message } = error as { code?: string; message: string }
  if (!code?.startsWith('ERR_PARSE_ARGS')) throw error
  const unknown = code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION' ? /'(-[^']*)'/.exec(message)?.[1]?.replace(/=.*$/s, '') : undefined
  if (!unknown) return usage(message.split('. ')[0]?.replace(/\.$/, '') ?? message)
  // Only resize has the limits of a session without its disk.
  if (known['pids-limit'] && /^--disk(-mb)?$/.test(unknown)) return usage('the disk of a session cannot change')
  const signal = known.signal && argv.find(word => /^-(\d+|[A-Z]{3,}\d?)$/.test(word))
  if (signal) return usage(`unknown flag ${signal}; a signal is written -s ${signal.slice(1)}`)
  const meant = nearest(unknown, Object.entries(known).flatMap(spellings))
  // Only exec and run have a program to run, whose own flags are easily taken for ours.
  const example = known.command ? 'exec NAME -- ls -la' : known['copy-in'] ? 'run -- ls -la' : undefined
  if (!meant && example) return usage(`unknown flag ${unknown}; a program and its flags go behind --: ${example}`)
  return usage(`unknown flag ${unknown}${meant ? `; did you mean ${meant}?` : ''}`)
}

const spellings = ([name, { type }]: [string, Flag]) => (type === 'boolean' ? [`--${name}`, `--no-${name}`] : [`--${name}`])
