// The folders that the egress process uses. All of them are below its working directory, because its user cannot walk through the data folder: it
// gets relative paths.
import { chmod, chown, mkdir, rmdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { type EgressUser, egressSocketFolder, egressUser, makeEgressSocketFolder } from '../backends/machine/egress-endpoint.ts'
import { isMissing, namesIn, nullIfMissing } from '../lib/missing-file.ts'

const CONTROL = 'control'
const SOCKET = 'socket'
const LOGS = 'log'

/** The control socket, as the daemon and as the egress process name it. */
export const controlSocket = (dataDir: string): string => join(egressSocketFolder(dataDir), CONTROL, SOCKET)
export const CONTROL_SOCKET_INSIDE = join(CONTROL, SOCKET)

/** The folder of a session's network log, as the daemon and as the egress process name it. */
export const logFolder = (dataDir: string, id: string): string => join(egressSocketFolder(dataDir), LOGS, id)
export const logFolderInside = (id: string): string => join(LOGS, id)

/** Returns the working directory. SECURITY: the egress process owns the folder of its control socket, and nothing above it. */
export async function makeEgressFolders(dataDir: string): Promise<string> {
  const folder = await makeEgressSocketFolder(dataDir)
  const user = egressUser(dataDir)
  await makeFolder(join(folder, CONTROL), user)
  await makeFolder(join(folder, LOGS), null)
  if (user !== null) {
    await chown(join(folder, LOGS), 0, user.gid)
    await chmod(join(folder, LOGS), 0o710)
  }
  return folder
}

/** SECURITY: its parent belongs to the daemon, so that the egress process cannot put a link in its place. */
export async function makeLogFolder(dataDir: string, id: string): Promise<void> {
  const make = () => makeFolder(logFolder(dataDir, id), egressUser(dataDir))
  try {
    await make()
  } catch (error) {
    if (!isMissing(error)) throw error
    await makeEgressFolders(dataDir)
    await make()
  }
}

/**
 * SECURITY: removes plain files alone, by their names. The egress process may have put a folder or a link there; a recursive removal could be led to
 * files of others.
 */
export async function removeLogFolder(dataDir: string, id: string): Promise<void> {
  const folder = logFolder(dataDir, id)
  for (const name of await namesIn(folder)) await unlink(join(folder, name)).catch(nullIfMissing)
  await rmdir(folder).catch(nullIfMissing)
}

/** Ids of the sessions that have a log. */
export const loggedSessions = (dataDir: string): Promise<string[]> => namesIn(join(egressSocketFolder(dataDir), LOGS))

async function makeFolder(path: string, owner: EgressUser | null): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    if (isMissing(error) || (error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  if (owner !== null) await chown(path, owner.uid, owner.gid)
}
