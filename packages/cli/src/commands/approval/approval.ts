// `sandglass approval`: the flags of its actions, and their files.
import type { Command } from '../../command.ts'
import { type Actions, runAction } from '../../parser/actions.ts'

const ACTIONS: Actions = {
  ls: () => import('./ls.ts'),
  allow: () => import('./allow.ts'),
  deny: () => import('./deny.ts'),
  watch: () => import('./watch.ts'),
}
const runNamed = runAction('approval', ACTIONS)

export const command: Command = {
  summary: 'Answer requests that sessions in mode ask hold',
  usage: ['ls [--all] [-f]', 'allow ID [--session | --policy [NAME]]', 'deny ID [--session]', 'watch', '-f'],
  about: `A session in mode ask holds a request outside its policies until it is answered here. Without an answer in time it is refused.

ls lists the requests that wait. With -f, requests are printed as they come, until you press Ctrl-C.

allow lets a request go on, and with --session also later requests to its host in this session. --policy adds a rule to the policy NAME,
so that all sessions with that policy may send such requests; without NAME, to the only policy of the session that can be changed.

deny refuses a request, and with --session also later requests to its host in this session.

watch asks about each request on the terminal, as it comes. So does -f without an action.`,
  options: {
    all: { type: 'boolean', only: 'ls', short: 'a', about: 'ls: also show requests that have been answered or have expired' },
    follow: { type: 'boolean', short: 'f', about: 'print requests as they come; without an action, ask about each' },
    session: { type: 'boolean', only: ['allow', 'deny'], about: 'the answer holds for the host of the request in this session' },
    policy: { type: 'boolean', only: 'allow', about: 'allow: add a rule to a policy of the session' },
  },
  completes: Object.keys(ACTIONS),
  namesAfter: { allow: ['approval', 'policy'], deny: ['approval'] },
  changes: ['allow', 'deny'],
  run: (input, context) =>
    runNamed(input.args.length === 0 && input.flags.follow ? { ...input, args: ['watch'] } : input, context),
}
