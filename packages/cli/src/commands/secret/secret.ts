// `sandglass secret set`, `ls` and `rm`.
import { LIMITS, SECRET_NAME } from '@sandglass/contract/tables'
import { SandglassError } from '@sandglass/sdk'
import type { Command, Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { table } from '../../output/table.ts'
import { fromNow } from '../../parser/duration.ts'
import { noArguments, usage } from '../../parser/parse.ts'
import { confirm } from '../../setup/ask.ts'
import { readSecretValue } from './secret-value.ts'

export const command: Command = {
  summary: 'Store, list and remove secrets, encrypted',
  usage: ['set NAME', 'ls', 'rm NAME... [-f]'],
  about: `set asks for the value without showing it, or reads it from stdin and drops one newline at the end. A stored value is never shown.`,
  options: { force: { type: 'boolean', short: 'f', about: 'rm: do not ask, and ignore secrets that do not exist' } },
  completes: ['set', 'ls', 'rm'],
  changes: ['set', 'rm'],
  run(input, context) {
    const [action = '', ...args] = input.args
    // SECURITY: an argument in the wrong place may be a value, so no message here repeats an argument.
    if (!Object.hasOwn(ACTIONS, action)) throw usage('secret has the actions set, ls and rm')
    return ACTIONS[action as keyof typeof ACTIONS]({ ...input, args }, context)
  },
}

const ACTIONS = { set, ls, rm }

async function set({ args, rest }: Input, { connect, json, print, say }: Context): Promise<number> {
  const [name, ...others] = named([...args, ...(rest ?? [])])
  if (others.length > 0 || name === undefined)
    throw usage('set takes one NAME; the value comes from a prompt or from stdin, never from the command line')
  const value = await readSecretValue(name)
  const stored = await (await connect()).secrets.put(name, value)
  if (json) print(toJson(stored))
  else say(`stored ${name}\n`)
  return 0
}

async function ls(input: Input, { connect, json, print, say }: Context): Promise<number> {
  noArguments(input)
  const found = await (await connect()).secrets.list()
  const rows = found.map(s => [s.name, fromNow(s.createdAt), fromNow(s.updatedAt)])
  if (json) print(toJson(found))
  else if (found.length > 0) print(table(['NAME', 'CREATED', 'UPDATED'], rows, process.stdout))
  else say('no secrets; `sandglass secret set NAME` stores one\n')
  return 0
}

async function rm({ flags, args, rest }: Input, { connect, json, print, say }: Context): Promise<number> {
  const names = named([...args, ...(rest ?? [])])
  if (names.length === 0) throw usage('NAME is missing')
  if (!flags.force) {
    if (!process.stdin.isTTY) throw usage('rm asks for confirmation, and there is no terminal: pass -f')
    if (
      !(await confirm(
        `Remove ${names.length === 1 ? `the secret ${names[0]}` : `${names.length} secrets (${names.join(', ')})`}?`,
      ))
    ) {
      say('nothing was removed\n')
      return 0
    }
  }
  const { secrets } = await connect()
  const removed: string[] = []
  for (const name of names) {
    try {
      await secrets.remove(name)
      removed.push(name)
      if (!json) print(`${name}\n`)
    } catch (error) {
      if (!flags.force || !(error instanceof SandglassError) || !error.is('SECRET_NOT_FOUND')) throw error
    }
  }
  if (json) print(toJson({ removed }))
  return 0
}

function named(names: readonly string[]): readonly string[] {
  if (names.every(name => SECRET_NAME.test(name))) return names
  throw usage(`NAME has 1 to ${LIMITS.secret_name.max} characters of a-z, A-Z, 0-9, ., _ and -, and begins with a letter`)
}
