import type { Context } from '../command.ts'
import { UsageError } from '../parser/usage-error.ts'

/** Sandglass itself failed, as opposed to the command. */
const OURS = 125

/** Runs `work` with exec's rule for exit codes: the command's own, or 125 when it is not known. A wrong flag stays 2. */
export async function execOutcome(work: () => Promise<number>, { report }: Context): Promise<number> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof UsageError) throw error
    await report(error)
    return OURS
  }
}
