// How long a command holds the lease: while it runs, but no longer than its timeout allows. The timeout counts from the request, so
// the commands ahead of it in its shell are part of that time.
//
// SECURITY: a sandbox may keep the reply to a command from ever coming, by what it does to its own shell. A command with a timeout lets go
// of the lease all the same. One without lets go when the client leaves and the runner had its time to end it. What is left is a client that
// stays, or one that asked for `detach`: it holds the session as a command that never ends would. The hard end of a session and its
// removal hold against both, and end the call.

import type { SessionContext } from '../context.ts'
import type { LiveSession } from '../live.ts'
import { hold } from './lease.ts'

/** For ending a command that does not want to, and for the way there and back. */
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
  const letGo = hold(context, live)
  let timer: NodeJS.Timeout | undefined
  const letGoAfter = (ms: number) => {
    clearTimeout(timer)
    timer = setTimeout(letGo, Math.min(ms, LONGEST_TIMER_MS)).unref()
  }
  if (timeoutMs !== null) letGoAfter(timeoutMs + graceMs)
  return {
    cancelled: () => letGoAfter(graceMs),
    release() {
      clearTimeout(timer)
      letGo()
    },
  }
}
