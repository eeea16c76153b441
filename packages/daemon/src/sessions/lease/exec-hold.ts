// How long a command holds the lease: while it runs, but no longer than its timeout allows. The timeout counts from the request, so it
// includes the commands ahead of it in its shell.
//
// SECURITY: a sandbox can damage its own shell so that the reply to a command never comes. A command with a timeout releases the lease
// after that time. A command without one releases it when the client has left and the runner had time to end the command. A client that
// stays, or one that asked for `detach`, holds the lease as long as a command that never ends would. The hard end of a session and its
// removal end the call in both cases.

import type { SessionContext } from '../context.ts'
import type { LiveSession } from '../live.ts'
import { hold } from './lease.ts'

/** Time for the runner to kill a command that ignores signals, and for the messages. */
const GRACE_MS = 10_000
const LONGEST_TIMER_MS = 2 ** 31 - 1

export type ExecHold = {
  /** The command was cancelled: the lease is held for the grace and no longer. */
  cancelled(): void
  /** The command is over. Idempotent. */
  release(): void
}

/** `timeoutMs` is null for a command without one. */
export function holdForExec(context: SessionContext, live: LiveSession, timeoutMs: number | null, graceMs = GRACE_MS): ExecHold {
  const release = hold(context, live)
  let timer: NodeJS.Timeout | undefined
  const releaseAfter = (ms: number) => {
    clearTimeout(timer)
    timer = setTimeout(release, Math.min(ms, LONGEST_TIMER_MS)).unref()
  }
  if (timeoutMs !== null) releaseAfter(timeoutMs + graceMs)
  return {
    cancelled: () => releaseAfter(graceMs),
    release() {
      clearTimeout(timer)
      release()
    },
  }
}
