// `sandglass policy show`.
import type { PolicyOptions } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { oneArgument } from '../../parser/parse.ts'
import { policyYaml } from './policy-yaml.ts'

export async function run(input: Input, { connect, json, print }: Context): Promise<number> {
  const stored = await (await connect()).policies.get(oneArgument(input, 'NAME'))
  print(json ? toJson(stored) : policyYaml(stored.policy as PolicyOptions))
  return 0
}
