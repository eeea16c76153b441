// `sandglass approval watch`: asks about each request on the terminal.
import { type ApprovalAnswer, type ApprovalInfo, type Approvals, SandglassError } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { printable } from '../../output/printable.ts'
import { shortDuration } from '../../parser/duration.ts'
import { noArguments, usage } from '../../parser/parse.ts'
import { askUnless } from '../../setup/ask.ts'
import { requestText, statusText } from './approval-text.ts'
import { Waiting, type WaitingRequest } from './waiting.ts'

export async function run(input: Input, context: Context): Promise<number> {
  noArguments(input)
  if (context.json || !process.stdin.isTTY || !process.stderr.isTTY)
    throw usage(
      `approval ${input.flags.follow ? '-f' : 'watch'} needs a terminal`,
      '`sandglass approval ls -f` prints requests without asking',
    )
  const { approvals } = await context.connect()
  const waiting = new Waiting()
  const ended = new AbortController()
  const following = followInto(waiting, approvals, ended.signal)
  context.say('waiting for requests; Ctrl-C ends\n')
  try {
    while (await answerNext(waiting, approvals, context));
    return 0
  } finally {
    ended.abort()
    await following
  }
}

async function followInto(waiting: Waiting, approvals: Approvals, signal: AbortSignal): Promise<void> {
  try {
    for await (const approval of approvals.follow({ signal })) waiting.learn(approval)
  } catch (error) {
    waiting.fail(error)
  }
}

/** What is typed: a letter, and after p the name of a policy. */
const TYPED = /^([ospd])\w*(?:\s+(\S+))?$/i
const SCOPES: Readonly<Record<string, ApprovalAnswer['scope']>> = { o: 'once', s: 'session', p: 'policy' }

/** Asks about one request; false at the end of the input. */
async function answerNext(waiting: Waiting, approvals: Approvals, context: Context): Promise<boolean> {
  const { approval, over } = await waiting.next()
  const typed = await askUnless(question({ approval, over }), over)
  if (typed === 'aborted') context.say('this request no longer waits\n')
  if (typed === 'aborted') return true
  if (typed === 'ended') return false
  const [, letter, policy] = TYPED.exec(typed.text) ?? []
  if (letter === undefined) {
    context.say('answer o, s, p, p NAME or d\n')
    return true // asked again, since the request still waits
  }
  try {
    context.say(`${statusText(await send(approvals, approval, SCOPES[letter.toLowerCase()], policy))}\n`)
  } catch (error) {
    await context.report(error)
    // Any other failure may pass, so that the same question is asked again.
    if (!(error instanceof SandglassError) || !(error.is('APPROVAL_ANSWERED') || error.is('APPROVAL_NOT_FOUND'))) return true
  }
  waiting.drop(approval.id)
  return true
}

/** Without a scope, the request is refused. */
function send(approvals: Approvals, { id }: ApprovalInfo, scope: ApprovalAnswer['scope'], policy: string | undefined) {
  if (scope === undefined) return approvals.deny(id)
  return approvals.allow(id, scope === 'policy' && policy !== undefined ? { scope, policy } : { scope })
}

function question({ approval }: WaitingRequest): string {
  const left = shortDuration(Math.max(0, Date.parse(approval.expiresAt) - Date.now()))
  return `${printable(approval.sessionName)}: ${requestText(approval)} (refused in ${left})\nallow [o]nce, for the [s]ession, in the [p]olicy (p NAME), or [d]eny? `
}
