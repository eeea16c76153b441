// Where the launcher is: the program that does the daemon's work on the host that Node cannot do.
import { dirname, join } from 'node:path'

/** The launcher is always installed beside the runner. */
export const launcherBeside = (runnerPath: string): string => join(dirname(runnerPath), 'launcher')
