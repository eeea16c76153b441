// How long a command holds the lease: while it runs, but no longer than it could take if its timeout holds. SECURITY: what a sandbox
// does to its own shell may keep a reply from ever coming; the session goes idle all the same, and its end ends the call.
import { hold } from './lease.ts'
import type { LiveSession } from './live.ts'
import type { World } from './world.ts'

/** For ending a command that does not want to, and for the way there and back. */
const GRACE_MS = 10_000
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Commands in one shell run one after another, so those ahead have their time first. */
export function holdForExec(
  world: World,
  live: LiveSession,
  { shell, timeout_ms }: { shell: string; timeout_ms: number },
  graceMs = GRACE_MS,
): () => void {
  const mine = timeout_ms + graceMs
  const all = (live.execMs.get(shell) ?? 0) + mine
  live.execMs.set(shell, all)
  const letGo = hold(world, live)
  const timer = setTimeout(letGo, Math.min(all, LONGEST_TIMER_MS)).unref()
  let isOver = false
  return () => {
    if (isOver) return
    isOver = true
    clearTimeout(timer)
    const left = (live.execMs.get(shell) ?? 0) - mine
    if (left > 0) live.execMs.set(shell, left)
    else live.execMs.delete(shell)
    letGo()
  }
}
