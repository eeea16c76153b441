// `sandglass secret set`.
import { SECRET_KINDS, SECRET_PRESETS } from '@sandglass/contract/tables'
import type { SecretOptions } from '@sandglass/sdk'
import type { Context, Input, Values } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { texts } from '../../parser/parse.ts'
import { secretName } from './secret-names.ts'
import { readSecretValue } from './secret-value.ts'

export async function run(input: Input, { connect, json, print, say }: Context): Promise<number> {
  const name = secretName('set', input)
  const settings = settingsFrom(input.flags)
  const kind = settings.kind ?? (settings.preset === 'aws' ? 'aws' : 'masked')
  const value = await readSecretValue(name, kind)
  const stored = await (await connect()).secrets.set(name, value, settings)
  if (json) print(toJson(stored))
  else say(`stored ${name}\n`)
  if (stored.scopes.length === 0) say('note: it has no scope, so that no session can use it; give --scope HOST or --preset\n')
  return 0
}

/** Only what is given: what is absent comes from the preset or from the daemon. */
function settingsFrom(flags: Values): SecretOptions {
  const one = <Word extends string>(name: string, known: readonly Word[]) => known.find(word => word === flags[name])
  const list = (name: string) => (flags[name] === undefined ? undefined : texts(flags[name]))
  const isOn = (name: string) => (typeof flags[name] === 'boolean' ? flags[name] : undefined)
  return {
    preset: one('preset', SECRET_PRESETS),
    kind: one('kind', SECRET_KINDS),
    env: texts(flags.env).at(-1),
    scopes: list('scope'),
    headers: list('header'),
    query: isOn('query'),
    body: isOn('body'),
    allowForeignCredentials: isOn('allow-foreign-credentials'),
  }
}
