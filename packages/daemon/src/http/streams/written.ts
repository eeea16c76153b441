// Writes to a client and waits while it is full.
import type { Writable } from 'node:stream'
import { SandglassError } from '@sandglass/contract'

/**
 * Resolves when more may be written or the client is gone; SLOW_READER when it has taken nothing for too long.
 * `onTaken` is called once nobody needs the data any more.
 */
export function written(
  to: Writable,
  data: string | Uint8Array,
  patienceMs: number,
  onTaken?: () => void,
): Promise<void> | undefined {
  if (to.write(data, error => !error && onTaken?.()) || to.destroyed) return undefined
  return new Promise((resolve, reject) => {
    const settle = (outcome: () => void) => {
      clearTimeout(timer)
      to.off('drain', onReady)
      to.off('close', onReady)
      outcome()
    }
    const onReady = () => settle(resolve)
    const timer = setTimeout(() => settle(() => reject(new SandglassError('SLOW_READER', {}))), patienceMs)
    to.once('drain', onReady)
    to.once('close', onReady)
  })
}
