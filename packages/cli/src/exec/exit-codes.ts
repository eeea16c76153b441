// Exit codes of exec, run and attach, which follow those of a shell.
import { constants } from 'node:os'
import type { Context } from '../command.ts'
import { UsageError } from '../parser/parse.ts'

export const INTERRUPTED = 128 + constants.signals.SIGINT
export const TERMINATED = 128 + constants.signals.SIGTERM
export const BROKEN_PIPE = 128 + constants.signals.SIGPIPE
const SANDGLASS_FAILED = 125

/** Returns the exit code of the command that `work` runs, or 125 if `work` fails. A usage error keeps its own code, 2. */
export async function commandExitCode(work: () => Promise<number>, { report }: Context): Promise<number> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof UsageError) throw error
    await report(error)
    return SANDGLASS_FAILED
  }
}
