// Relays the egress endpoint of a runner that the egress process cannot dial: a stream of the daemon's own link, joined to a connection to the control
// socket. The daemon passes bytes on and reads none of them.
import type { Duplex } from 'node:stream'
import { finished } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { writeLine } from '@sandglass/egress/lines'
import type { Logger } from '../log.ts'
import { dial } from './control.ts'

const FIRST_RETRY_MS = 20
const LAST_RETRY_MS = 500
/** A relay that held for this long was in use: the next attempt is made at once. */
const STEADY_MS = 5000

export interface RelayOptions {
  readonly session: string
  /** The control socket of the egress process. */
  readonly socketPath: string
  /** Opens the stream to the runner. */
  open(signal: AbortSignal): Promise<Duplex>
  readonly log: Logger
}

/** Opened again when either side breaks, until it is closed. */
export function openRelay(options: RelayOptions): { close(): void } {
  const closing = new AbortController()
  void keepOpen(options, closing.signal)
  return { close: () => closing.abort(new Error('the session has left the egress process')) }
}

async function keepOpen(options: RelayOptions, signal: AbortSignal): Promise<void> {
  let wait = FIRST_RETRY_MS
  while (!signal.aborted) {
    const begun = performance.now()
    try {
      await relayOnce(options, signal)
    } catch (err) {
      if (signal.aborted) return
      options.log.debug({ err, sessionId: options.session }, 'egress relay broke; retrying')
    }
    wait = performance.now() - begun > STEADY_MS ? FIRST_RETRY_MS : Math.min(2 * wait, LAST_RETRY_MS)
    await delay(wait, undefined, { signal, ref: false }).catch(() => undefined) // the loop ends
  }
}

/** Resolves when either side has ended. The protocol inside has no half-closed streams: one that is open in one direction is lost. */
async function relayOnce({ session, socketPath, open }: RelayOptions, signal: AbortSignal): Promise<void> {
  const egress = await dial(socketPath)
  egress.on('error', () => undefined) // finished reports it
  let runner: Duplex | undefined
  try {
    runner = await open(signal)
    runner.on('error', () => undefined) // the same
    writeLine(egress, { type: 'relay', session })
    runner.pipe(egress)
    egress.pipe(runner)
    const ends = [runner, egress].map(stream => finished(stream, { writable: false, signal }))
    for (const end of ends) end.catch(() => undefined) // the first to end is reported
    await Promise.race(ends)
  } finally {
    egress.destroy()
    runner?.destroy()
  }
}
