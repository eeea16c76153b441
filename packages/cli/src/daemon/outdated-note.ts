import { SandglassError } from '@sandglass/contract/tables'
import type { Context } from '../command.ts'
import { findDaemon, isOutdated, mayBeOutdated } from './running-daemon.ts'

/** One line when the daemon runs with an older configuration than the file's, which may be why it refused. */
export async function noteOutdated({ env, settings, say }: Context): Promise<void> {
  if (env.SANDGLASS_URL) return
  const found = await settings()
  // Looking for the daemon costs more, and is seldom needed.
  if (!mayBeOutdated(found)) return
  const daemon = findDaemon(found.dataDir)
  if (daemon && isOutdated(daemon, found))
    say(`note: ${found.configPath} was changed after the daemon started: \`sandglass shutdown\` makes the next command use it\n`)
}

/** Only what the daemon itself answered has a request id. */
export const isFromDaemon = (error: unknown): boolean => error instanceof SandglassError && error.requestId !== undefined
