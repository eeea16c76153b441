// Prints what the creation or start of a session is waiting for.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { SandboxClient, Session, SessionOptions } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { printable } from './printable.ts'

/** A container without preparations is ready sooner than this. */
const FIRST_MS = 1000
const THEN_MS = 500
/** Shown when there are no preparations, for instance while a virtual machine boots. */
const STARTING = 'starting the session'

/** Which create or start: by its idempotency key or by its session. */
export type Waiting = { readonly idempotencyKey: string } | { readonly session: string }

export async function showProgress<T>(
  client: SandboxClient,
  waiting: Waiting,
  { quiet, say }: Context,
  work: Promise<T>,
): Promise<T> {
  const over = new AbortController()
  const shown = quiet ? Promise.resolve() : print(client, waiting, say, over.signal)
  try {
    return await work
  } finally {
    over.abort()
    await shown
  }
}

/** Creates a session under a key of its own, and prints what exactly this create waits for. */
export function createWithProgress(client: SandboxClient, spec: SessionOptions, context: Context): Promise<Session> {
  const idempotencyKey = randomUUID()
  return showProgress(client, { idempotencyKey }, context, client.createSession(spec, { idempotencyKey }))
}

async function print(client: SandboxClient, waiting: Waiting, say: (text: string) => void, signal: AbortSignal): Promise<void> {
  let last = ''
  for (let wait = FIRST_MS; ; wait = THEN_MS) {
    try {
      await delay(wait, undefined, { signal })
      const step = (await client.preparations({ ...waiting, signal }))[0]?.step ?? STARTING
      if (step !== last) say(`${printable(step)}\n`)
      last = step
    } catch {
      return // the work has ended, or fails with the same reason
    }
  }
}
