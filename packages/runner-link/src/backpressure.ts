// Writing no faster than the other side reads.
import type { Writable } from 'node:stream'

/** The longest wait for a reader that takes nothing, and the error that ends the wait. */
export type ReadTimeout = { readonly ms: number; readonly error: () => Error }

/** Resolves when more may be written, or when the stream is closed and nothing will ever be. */
export function drained(to: Writable, timeout?: ReadTimeout): Promise<void> {
  return new Promise((resolve, reject) => {
    if (to.destroyed || !to.writableNeedDrain) return resolve()
    const settle = (outcome: () => void) => {
      clearTimeout(timer)
      to.off('drain', onReady).off('close', onReady)
      outcome()
    }
    const onReady = () => settle(resolve)
    const timer = timeout && setTimeout(() => settle(() => reject(timeout.error())), timeout.ms)
    to.once('drain', onReady).once('close', onReady)
  })
}

/** Writes, then waits as `drained` does; undefined when there is nothing to wait for. `onTaken` is called once nobody needs the data any more. */
export function writeDrained(
  to: Writable,
  data: string | Uint8Array,
  timeout?: ReadTimeout,
  onTaken?: () => void,
): Promise<void> | undefined {
  return to.write(data, error => !error && onTaken?.()) ? undefined : drained(to, timeout)
}
