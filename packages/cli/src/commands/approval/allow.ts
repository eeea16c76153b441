// `sandglass approval allow`.
import { APPROVAL_ID, SandglassError } from '@sandglass/contract/tables'
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { usage } from '../../parser/parse.ts'
import { requestText, statusText } from './approval-text.ts'

export async function run({ args, rest, flags }: Input, { connect, json, print }: Context): Promise<number> {
  const [id, policy, ...more] = [...args, ...(rest ?? [])]
  if (id === undefined) throw usage('ID is missing; `sandglass approval ls` shows it')
  if (flags.session && flags.policy) throw usage('give either --session or --policy, not both')
  if (policy !== undefined && !flags.policy) throw usage(`unexpected argument ${policy}: the name of a policy goes with --policy`)
  if (more.length > 0) throw usage(`unexpected argument ${more[0]}: allow takes one ID`)
  const scope = flags.policy ? 'policy' : flags.session ? 'session' : 'once'
  if (!APPROVAL_ID.test(id)) throw new SandglassError('APPROVAL_NOT_FOUND', { id })
  const { approvals } = await connect()
  const answered = await approvals.allow(id, policy === undefined ? { scope } : { scope, policy })
  print(json ? toJson(answered) : `${statusText(answered)}  ${requestText(answered)}\n`)
  return 0
}
