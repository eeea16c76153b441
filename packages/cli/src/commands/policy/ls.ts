// `sandglass policy ls`.
import type { PolicyInfo } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { table } from '../../output/table.ts'
import { noArguments } from '../../parser/parse.ts'

export async function run(input: Input, { connect, json, print }: Context): Promise<number> {
  noArguments(input)
  const found = await (await connect()).policies.list()
  const rows = found.map(info => [info.name, rulesText(info), info.policy.mode ?? '-', aboutText(info)])
  print(json ? toJson(found) : table(['NAME', 'RULES', 'MODE', 'ABOUT'], rows, process.stdout))
  return 0
}

/** The number of rules, and the policies that are included: 3 + npm. */
function rulesText({ policy: { domains, urlPrefixes, tcp, include } }: PolicyInfo): string {
  const own = domains.length + urlPrefixes.length + tcp.length
  return [...(own > 0 || include.length === 0 ? [String(own)] : []), ...include].join(' + ')
}

function aboutText({ builtIn, policy: { description = '' } }: PolicyInfo): string {
  if (!builtIn) return description
  return description === '' ? 'ready-made' : `ready-made: ${description}`
}
