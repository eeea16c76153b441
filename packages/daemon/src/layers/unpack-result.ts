// The result line of `launcher unpack`, `launcher restack` and `launcher devices`; runner/LAUNCHER.md describes them.
import { z } from 'zod'

export const UnpackResult = z.strictObject({
  ok: z.boolean(),
  code: z.enum(['invalid', 'too_many_entries', 'too_many_bytes', 'too_many_name_bytes', 'full', 'failed']).optional(),
  entry: z.string().optional().describe('the entry at fault; for devices, the first device file'),
  issue: z.string().optional(),
  entries: z.int(),
  bytes: z.int(),
  skipped: z.int(),
})
export type UnpackResult = z.infer<typeof UnpackResult>

/** Null for text that is no result: the program was killed before it could answer. */
export function parseUnpackResult(line: string): UnpackResult | null {
  try {
    return UnpackResult.safeParse(JSON.parse(line)).data ?? null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
