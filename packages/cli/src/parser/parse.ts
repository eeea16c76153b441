// Reads the words of a command line by the flags of its command. Loaded by every run, so it imports little.
import { nearest } from '@sandglass/contract/nearest'
import type { Command, Flag, Input } from '../command.ts'
import { COMMAND_NAMES, GLOBAL_FLAGS } from '../commands.ts'

/** Separates the command from its arguments. Global flags may come before it. */
export function splitCommand(argv: readonly string[]): { name: string | undefined; rest: string[] } {
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i] ?? ''
    if (word === '--config') i++
    else if (word === '--') break
    else if (!word.startsWith('-')) return { name: word, rest: argv.toSpliced(i, 1) }
  }
  return { name: undefined, rest: [...argv] }
}

/** The flags of a command in this call: those of its form or action, and those of no particular action. */
export function optionsOf(command: Command, argv: readonly string[]): Command['options'] {
  const { completes } = command
  const options = command.optionsFor?.(argv) ?? command.options
  const action = Array.isArray(completes) ? argv.find(word => completes.includes(word)) : undefined
  const isTaken = (only: Flag['only']) => only === undefined || [only].flat().some(name => name === action)
  return Object.fromEntries(Object.entries(options).filter(([, { only }]) => isTaken(only)))
}

/** Parses the arguments of a command. */
export function parseInput(argv: readonly string[], options: Readonly<Record<string, Flag>>): Input {
  const known: Record<string, Flag> = { ...GLOBAL_FLAGS, ...options }
  const end = argv.indexOf('--')
  const own = end < 0 ? argv : argv.slice(0, end)
  try {
    // An import of node:util would load all of it, at the start of every command.
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
    const meant = suggestion(wrong.toLowerCase(), choices)
    throw usage(`--${name} must be ${choiceText(choices)}, not ${wrong}${meant ? `; did you mean ${meant}?` : ''}`)
  }
}

/** `a, b or c` */
export const choiceText = (choices: readonly string[]): string => [choices.slice(0, -1).join(', '), choices.at(-1)].join(' or ')

/** Sets the flag that an alias stands for. The alias stays, so that messages can name what was written. */
function withAliases(given: Input['flags'], known: Readonly<Record<string, Flag>>): Input['flags'] {
  const flags = { ...given }
  for (const [name, { aliasOf }] of Object.entries(known)) {
    if (aliasOf === undefined || given[name] === undefined) continue
    if (given[aliasOf] !== undefined) throw usage(`--${name} and --${aliasOf} are the same flag: give one of them`)
    flags[aliasOf] = given[name]
  }
  return flags
}

/** The flag as the user wrote it: the alias, if that was given. */
export function writtenFlag(flag: string, given: Input['flags'], known: Readonly<Record<string, Flag>>): string {
  return Object.keys(known).find(name => known[name]?.aliasOf === flag && given[name] !== undefined) ?? flag
}

/** A mistake in the use of the command line. It becomes USAGE of the contract's error table where it is reported, since that table loads slowly. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  readonly next: string | undefined
  /** Further mistakes, each printed on a line of its own. */
  readonly more: readonly string[]

  constructor(issue: string, next?: string, more: readonly string[] = []) {
    super(issue)
    this.next = next
    this.more = more
  }
}

/** Without `next`, the next step is the help of the command. */
export const usage = (issue: string, next?: string) => new UsageError(issue, next)

/** Commands of other tools. */
const OTHER_WORDS: Readonly<Record<string, string>> = {
  list: 'ls',
  delete: 'rm',
  destroy: 'rm',
  remove: 'rm',
  create: 'new',
  ssh: 'shell',
  top: 'stats',
}

/** The known word that was probably meant: the command of another tool, a typing error, or a beginning. */
export function suggestion(word: string, known: readonly string[]): string | undefined {
  const other = OTHER_WORDS[word]
  if (other !== undefined && known.includes(other)) return other
  return nearest(word, known) ?? (word.length > 1 ? known.find(candidate => candidate.startsWith(word)) : undefined)
}

export function unknownCommand(name: string): UsageError {
  const meant = suggestion(name, COMMAND_NAMES)
  return usage(`unknown command ${name}${meant ? `; did you mean ${meant}?` : ''}`, '`sandglass help` lists the commands')
}

/** The only argument of a command that takes one. */
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
  if (!unknown) return usage(valueIssue(message, known) ?? message)
  // resize is the command that has the limits of a session but no disk.
  if (known['pids-limit'] && /^--disk(-mb)?$/.test(unknown)) return usage('the disk of a session cannot change')
  const signal = known.signal && argv.find(word => /^-(\d+|[A-Z]{3,}\d?)$/.test(word))
  if (signal) return usage(`unknown flag ${signal}; a signal is written -s ${signal.slice(1)}`)
  const meant = suggestion(unknown, Object.entries(known).flatMap(spellings))
  // In exec and run, the flags of the program are easily written in front of --.
  const example = known.command ? 'exec NAME -- ls -la' : known['copy-in'] && !known.prompt ? 'run -- ls -la' : undefined
  if (!meant && example) return usage(`unknown flag ${unknown}; write -- before a program and its flags: ${example}`)
  return usage(`unknown flag ${unknown}${meant ? `; did you mean ${meant}?` : ''}`)
}

/** What is wrong with the value of a flag, in our words; undefined for any other message of Node. */
function valueIssue(message: string, known: Readonly<Record<string, Flag>>): string | undefined {
  const [, flag] = /^Option '(?:-\w, )?--([\w-]+)/.exec(message) ?? []
  if (flag === undefined) return undefined
  if (message.includes('does not take')) return `--${flag} takes no value`
  const { choices, value } = known[flag] ?? {}
  const wanted = choices?.join(', ') ?? value
  const issue = `--${flag} needs a value${wanted === undefined ? '' : `: ${wanted}`}`
  return message.includes('ambiguous') ? `${issue}; write --${flag}=VALUE for one that begins with -` : issue
}

const spellings = ([name, { type }]: [string, Flag]) => (type === 'boolean' ? [`--${name}`, `--no-${name}`] : [`--${name}`])
