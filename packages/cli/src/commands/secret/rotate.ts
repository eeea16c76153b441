// `sandglass secret rotate`.
import { SandglassError } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { secretName } from './secret-names.ts'
import { readSecretValue } from './secret-value.ts'

export async function run(input: Input, { connect, json, print, say }: Context): Promise<number> {
  const name = secretName('rotate', input)
  const { secrets } = await connect()
  // The kind says how the value is read. A secret that does not exist is reported before the value is asked for.
  const current = (await secrets.list()).find(secret => secret.name === name)
  if (current === undefined) throw new SandglassError('SECRET_NOT_FOUND', { name })
  const stored = await secrets.rotate(name, await readSecretValue(name, current.kind))
  if (json) print(toJson(stored))
  else say(`rotated ${name}\n`)
  return 0
}
