// `sandglass policy use`.
import { POLICY_MODES } from '@sandglass/contract/tables'
import type { SessionInfo, SessionPolicies } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { printable } from '../../output/printable.ts'
import { noteWarnings, toJson } from '../../output/show-session.ts'
import { NONE } from '../../parser/duration.ts'
import { text, usage } from '../../parser/parse.ts'

export async function run({ args, rest, flags }: Input, context: Context): Promise<number> {
  const [session, ...names] = [...args, ...(rest ?? [])]
  if (session === undefined) throw usage('SESSION is missing')
  const mode = text(flags.mode)
  if (flags.clear && names.length > 0) throw usage('give either names of policies or --clear, not both')
  if (!flags.clear && names.length === 0 && mode === undefined) throw usage('NAME is missing; --clear takes all policies away')
  const changes: SessionPolicies = {
    ...(flags.clear || names.length > 0 ? { policies: names } : {}),
    ...(mode === undefined ? {} : { policyMode: modeOf(mode) }),
  }
  const info = await (await context.connect()).session(session).network.setPolicies(changes)
  noteWarnings(info, context)
  context.print(context.json ? toJson(info) : `${printable(line(info))}\n`)
  return 0
}

function modeOf(given: string): SessionPolicies['policyMode'] {
  if (given === NONE) return null
  const mode = POLICY_MODES.find(known => known === given)
  if (mode === undefined) throw usage(`--mode must be ${POLICY_MODES.join(', ')} or ${NONE}, not ${given}`)
  return mode
}

const line = ({ name, policies, policyMode }: SessionInfo) =>
  `${name}  ${policies.join(', ') || 'no policies'}${policyMode === null ? '' : `  mode ${policyMode}`}`
