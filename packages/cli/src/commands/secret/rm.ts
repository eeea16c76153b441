// `sandglass secret rm`.
import { SandglassError } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { usage } from '../../parser/parse.ts'
import { confirm } from '../../setup/ask.ts'
import { secretNames } from './secret-names.ts'

export async function run(input: Input, { connect, json, print, say }: Context): Promise<number> {
  const names = secretNames(input)
  const force = input.flags.force === true
  if (names.length === 0) throw usage('NAME is missing')
  if (!force) {
    if (!process.stdin.isTTY) throw usage('rm asks for confirmation, and there is no terminal: pass -f')
    const what = names.length === 1 ? `the secret ${names[0]}` : `${names.length} secrets (${names.join(', ')})`
    if (!(await confirm(`Remove ${what}?`))) {
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
      if (!force || !(error instanceof SandglassError) || !error.is('SECRET_NOT_FOUND')) throw error
    }
  }
  if (json) print(toJson({ removed }))
  return 0
}
