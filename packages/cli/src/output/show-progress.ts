// What a session that is not there yet waits for, told to a person.
import { setTimeout as delay } from 'node:timers/promises'
import type { SandboxClient } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { printable } from './printable.ts'

/** A container for which nothing has to be prepared is there sooner than this. */
const FIRST_MS = 1000
const THEN_MS = 500
/** What takes long when nothing has to be prepared: a virtual machine boots, for one. */
const STARTING = 'starting the machine'

export async function showPreparations<T>(client: SandboxClient, { quiet, say }: Context, work: Promise<T>): Promise<T> {
  const over = new AbortController()
  const shown = quiet ? Promise.resolve() : tell(client, say, over.signal)
  try {
    return await work
  } finally {
    over.abort()
    await shown
  }
}

async function tell(client: SandboxClient, say: (text: string) => void, signal: AbortSignal): Promise<void> {
  let last = ''
  for (let wait = FIRST_MS; ; wait = THEN_MS) {
    try {
      await delay(wait, undefined, { signal })
      // The oldest: others wait for the same.
      const step = (await client.preparations({ signal }))[0]?.step ?? STARTING
      if (step !== last) say(`${printable(step)}\n`)
      last = step
    } catch {
      return // it is over, or the work itself fails with the reason
    }
  }
}
