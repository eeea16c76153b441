// `sandglass approval deny`.
import { APPROVAL_ID, SandglassError } from '@sandglass/contract/tables'
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { oneArgument } from '../../parser/parse.ts'
import { requestText, statusText } from './approval-text.ts'

export async function run(input: Input, { connect, json, print }: Context): Promise<number> {
  const id = oneArgument(input, 'ID')
  if (!APPROVAL_ID.test(id)) throw new SandglassError('APPROVAL_NOT_FOUND', { id })
  const { approvals } = await connect()
  const answered = await approvals.deny(id, { scope: input.flags.session ? 'session' : 'once' })
  print(json ? toJson(answered) : `${statusText(answered)}  ${requestText(answered)}\n`)
  return 0
}
