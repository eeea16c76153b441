// Prints candidates for the shell: `sandglass __complete WORD...`, where the last word is the one under the cursor. Each line is a candidate,
// with its explanation after a tab; a line `:files` asks the shell to offer files of this machine as well.
import type { Command, Context, Flag } from '../command.ts'
import { COMMAND_NAMES, GLOBAL_FLAGS, isCommand, loadCommand } from '../commands.ts'
import { optionsOf, splitCommand } from '../parser/parse.ts'
import { type Candidate, type Candidates, endpoints, namesOf, processNames, sessionNames } from './candidates.ts'

export async function complete(words: readonly string[], context: Context): Promise<number> {
  const { words: found, hasFiles } = await candidates(words, context)
  for (const { word, about } of found) context.print(about ? `${word}\t${about}\n` : `${word}\n`)
  if (hasFiles) context.print(':files\n')
  return 0
}

async function candidates(words: readonly string[], context: Context): Promise<Candidates> {
  const current = words.at(-1) ?? ''
  const before = words.slice(0, -1)
  const { name, rest } = splitCommand(before)
  if (before.at(-1) === '--config') return { words: [], hasFiles: true }
  if (name === undefined) return current.startsWith('-') ? flagNames({}, current) : commandNames(current)
  if (!isCommand(name) || before.includes('--')) return { words: [] }
  const command = await loadCommand(name)
  const own = optionsOf(command, rest)
  const options: Command['options'] = { ...own, ...GLOBAL_FLAGS }
  const assigned = /^(--[^=]+)=(.*)$/s.exec(current)
  if (assigned) {
    const found = await flagValues(flagOf(assigned[1] ?? '', options), assigned[2] ?? '', context)
    return { ...found, words: found.words.map(({ word }) => ({ word: `${assigned[1]}=${word}` })) }
  }
  const awaiting = flagOf(before.at(-1) ?? '', options)
  if (awaiting?.type === 'string') return flagValues(awaiting, current, context)
  if (current.startsWith('-')) return flagNames(own, current)
  return argument(command, positionals(rest, options), current, context)
}

async function argument(
  { completes, event, namesAfter }: Command,
  earlier: readonly string[],
  current: string,
  context: Context,
): Promise<Candidates> {
  const [action = '', ...given] = earlier
  const nouns = namesAfter?.[action]
  if (nouns !== undefined) return nounAt(nouns, given, current, context)
  if (completes === undefined) return { words: [] }
  if (completes === 'endpoints') return endpoints(current, context)
  const [session] = earlier
  if (completes === 'processes' && session !== undefined) {
    const known = await processNames(session, context)
    return matching(
      known.filter(({ word }) => !earlier.includes(word)),
      current,
    )
  }
  const isOnce = completes !== 'sessions'
  if (isOnce && earlier.length > 0) return { words: [] }
  return unused(typeof completes === 'string' ? await sessionNames(context, event) : completes, earlier, current)
}

/** What the next argument after these names: that of its place, or the last one, if it may be repeated. */
async function nounAt(
  nouns: readonly string[],
  given: readonly string[],
  current: string,
  context: Context,
): Promise<Candidates> {
  const last = nouns.at(-1) ?? ''
  const noun = nouns[given.length] ?? (last.endsWith('...') ? last : '')
  if (noun === 'file') return { words: [], hasFiles: true }
  const known = await namesOf(noun.replace('...', ''), context)
  return matching(
    known.filter(({ word }) => !given.includes(word)),
    current,
  )
}

async function commandNames(current: string): Promise<Candidates> {
  const found = COMMAND_NAMES.filter(name => name.startsWith(current))
  return { words: await Promise.all(found.map(async name => ({ word: name, about: (await loadCommand(name)).summary }))) }
}

function flagNames(options: Command['options'], current: string): Candidates {
  const all = Object.entries<Flag>({ ...options, ...GLOBAL_FLAGS })
  return matching(
    all.map(([name, { isOn, short, about }]) => ({ word: name === short ? `-${name}` : `--${isOn ? 'no-' : ''}${name}`, about })),
    current,
  )
}

async function flagValues(flag: Flag | undefined, current: string, context: Context): Promise<Candidates> {
  if (flag?.isPath) return { words: [], hasFiles: true }
  if (flag?.names !== undefined) return matching(await namesOf(flag.names, context), current)
  return unused(flag?.choices ?? flag?.suggested ?? [], [], current)
}

const unused = (known: readonly string[], earlier: readonly string[], current: string): Candidates =>
  matching(
    known.filter(word => !earlier.includes(word)).map(word => ({ word })),
    current,
  )

const matching = (known: readonly Candidate[], start: string): Candidates => ({
  words: known.filter(({ word }) => word.startsWith(start)),
})

function flagOf(word: string, options: Command['options']): Flag | undefined {
  if (word.startsWith('--')) return options[word.slice(2)]
  return word.startsWith('-') ? Object.values(options).find(({ short }) => `-${short}` === word) : undefined
}

/** The words that are neither flags nor values of flags. */
function positionals(words: readonly string[], options: Command['options']): string[] {
  return words.filter((word, i) => !word.startsWith('-') && flagOf(words[i - 1] ?? '', options)?.type !== 'string')
}
