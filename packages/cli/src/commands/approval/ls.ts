// `sandglass approval ls`.
import { toSnake } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { printableJson } from '../../output/printable.ts'
import { toJson } from '../../output/show-session.ts'
import { noArguments } from '../../parser/parse.ts'
import { approvalTable } from './approval-table.ts'
import { approvalLine } from './approval-text.ts'

export async function run(input: Input, context: Context): Promise<number> {
  noArguments(input)
  const isAll = input.flags.all === true
  return input.flags.follow ? follow(isAll, context) : list(isAll, context)
}

async function list(isAll: boolean, { connect, json, print, say }: Context): Promise<number> {
  const { approvals } = await connect()
  const found = await approvals.list(isAll ? {} : { status: 'pending' })
  if (json) print(toJson(found))
  else if (found.length > 0) print(approvalTable(found, process.stdout))
  else say(isAll ? 'no request has been held\n' : 'no request waits for an answer; --all shows earlier ones\n')
  return 0
}

async function follow(isAll: boolean, { connect, json, print }: Context): Promise<number> {
  const { approvals } = await connect()
  const known = new Set<string>()
  for await (const approval of approvals.follow()) {
    const { id, status } = approval
    // A request that waits is announced again when more requests wait for its answer, and after a lost connection.
    if (status === 'pending' ? known.has(id) : !isAll) continue
    if (status === 'pending') known.add(id)
    print(`${json ? printableJson(toSnake(approval)) : approvalLine(approval)}\n`)
  }
  return 0
}
