// `sandglass policy suggest`.
import { POLICY_NAME, POLICY_NAME_RULE } from '@sandglass/contract/tables'
import type { PolicyOptions, SandboxClient } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { printable } from '../../output/printable.ts'
import { toJson } from '../../output/show-session.ts'
import { oneArgument, text, usage } from '../../parser/parse.ts'
import { beyondPolicies } from './beyond-policies.ts'
import { policyYaml } from './policy-yaml.ts'

export async function run(input: Input, { connect, json, print, say }: Context): Promise<number> {
  const session = oneArgument(input, 'SESSION')
  const name = text(input.flags.save)
  if (name !== undefined && !POLICY_NAME.test(name)) throw usage(`--save must be ${POLICY_NAME_RULE}`)
  const client = await connect()
  const all = await client.session(session).network.suggestPolicy()
  const included = await policiesOf(session, name, client)
  const suggested = await beyondPolicies(all, included, (policy, url, method) => client.policies.check(policy, url, { method }))
  print(json ? toJson(suggested) : policyYaml(suggested))
  if (isEmpty(suggested)) {
    const beyond = isEmpty(all) ? 'a policy could allow' : 'its policies do not allow'
    say(`note: ${printable(session)} has sent nothing that ${beyond}\n`)
  }
  if (name === undefined) return 0
  await client.policies.set(name, suggested)
  say(`stored ${name}\n`)
  return 0
}

/** The policies of the session that still exist, without the one that the suggestion replaces. */
async function policiesOf(session: string, replaced: string | undefined, client: SandboxClient): Promise<string[]> {
  const { policies } = await client.session(session).refresh()
  if (policies.length === 0) return []
  const known = (await client.policies.list()).map(({ name }) => name)
  return policies.filter(name => known.includes(name) && name !== replaced)
}

const isEmpty = ({ domains = [], urlPrefixes = [], tcp = [] }: PolicyOptions) =>
  [domains, urlPrefixes, tcp].every(list => list.length === 0)
