// What the first process of a machine (runner/internal/guest) prints on the console, as far as the daemon reads it in the boot log.
// runner/testdata/launcher/guest-console.json has these texts for the tests of both sides.
import { z } from 'zod'

export const BOOTED_LINE = 'sandglass: booted'
export const WAITING_LINE = 'sandglass: waiting for a session'
export const EXIT_PREFIX = 'sandglass: exit '

/** Why a session ended: the last message of its machine. */
export const ExitReason = z.strictObject({
  reason: z.enum(['failed', 'requested', 'out_of_memory', 'signal', 'status']),
  text: z.string(),
})
export type ExitReason = z.infer<typeof ExitReason>

/** Null if the machine ended without one. SECURITY: the machine writes its log, so the reason is believed about the machine alone. */
export function exitReasonIn(log: string): ExitReason | null {
  const line = log.split('\n').findLast(text => text.startsWith(EXIT_PREFIX))
  if (line === undefined) return null
  try {
    return ExitReason.safeParse(JSON.parse(line.slice(EXIT_PREFIX.length))).data ?? null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
