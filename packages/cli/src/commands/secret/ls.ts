// `sandglass secret ls`.
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { table } from '../../output/table.ts'
import { fromNow } from '../../parser/duration.ts'
import { usage } from '../../parser/parse.ts'
import { secretNames } from './secret-names.ts'

export async function run(input: Input, { connect, json, print, say }: Context): Promise<number> {
  if (secretNames(input).length > 0) throw usage('ls takes no argument')
  const found = await (await connect()).secrets.list()
  const rows = found.map(({ name, kind, env, scopes, updatedAt }) => [
    name,
    kind,
    kind === 'aws' ? 'AWS_*' : (env ?? '-'),
    scopes.join(', ') || '-',
    fromNow(updatedAt),
  ])
  if (json) print(toJson(found))
  else if (found.length > 0) print(table(['NAME', 'KIND', 'VARIABLE', 'SCOPES', 'UPDATED'], rows, process.stdout))
  else say('no secrets; `sandglass secret set NAME` stores one\n')
  return 0
}
