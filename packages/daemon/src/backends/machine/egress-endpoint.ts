// The egress endpoints of machines: the user of the egress process, and the folder with the sockets that this user may connect to.
//
// The data folder has mode 0700 and may be below a home folder with that mode, so the user of the egress process cannot walk to a socket in it. The
// daemon therefore starts the egress process with the folder of the sockets as its working directory, which needs no right to the folders above,
// and gives it the name of a socket instead of its path. Sockets in a folder that everybody can reach, such as /run, would work for root alone,
// and would rely on the mode of each socket.
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { chmod, chown, mkdir } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { EgressEndpoint } from '../backend.ts'
import type { EgressSocket } from '../launcher/schema.ts'
import { isInitialMap, mappedIds } from './mapped-ids.ts'

export interface EgressUser {
  readonly uid: number
  readonly gid: number
}

/** Right above the ids of QEMU and below those of the oci backend's sessions. No person or service has one of them. */
const ROOTS_IDS = { first: 0x0ff1_0000, count: 65_536 }
/** CAP_CHOWN, CAP_SETGID and CAP_SETUID. */
const NEEDED_CAPABILITIES = (1n << 0n) | (1n << 6n) | (1n << 7n)

/**
 * The user that the egress process of this data folder runs as; null for the daemon's own user, where the daemon cannot give it another one.
 * SECURITY: processes of one user can end and trace each other. Each data folder has an id of its own, and no session and no QEMU has it.
 */
export function egressUser(dataDir: string): EgressUser | null {
  if (process.getuid?.() !== 0 || !hasNeededCapabilities()) return null
  const [uidMap, gidMap] = [readFileSync('/proc/self/uid_map', 'utf8'), readFileSync('/proc/self/gid_map', 'utf8')]
  const id = isInitialMap(uidMap) ? idOf(dataDir) : mappedIds(uidMap, gidMap).egress
  return id === null ? null : { uid: id, gid: id }
}

/** The folder with the egress sockets of all machines of a data folder, and the working directory of the egress process. */
export const egressSocketFolder = (dataDir: string): string => join(dataDir, 'run', 'egress')

/**
 * Creates the folder of the sockets. SECURITY: the egress process may enter it, and can neither list it nor create anything in it. The folders above
 * stay closed, so that no other socket of the daemon can be reached from it.
 */
export async function makeEgressSocketFolder(dataDir: string): Promise<string> {
  const [folder, user] = [egressSocketFolder(dataDir), egressUser(dataDir)]
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if (user === null) return folder
  await chown(folder, 0, user.gid)
  await chmod(folder, 0o710)
  return folder
}

/** The endpoint as the egress process reaches it: with the name of the socket in its working directory. */
export function endpointForEgress(dataDir: string, endpoint: EgressEndpoint): EgressEndpoint {
  if (endpoint.kind === 'relay' || dirname(endpoint.path) !== egressSocketFolder(dataDir)) return endpoint
  return { kind: endpoint.kind, path: basename(endpoint.path) }
}

/** The socket in the job of a launcher. */
export const egressSocket = (dataDir: string, path: string): EgressSocket => ({
  path,
  owner: egressUser(dataDir)?.uid ?? process.getuid?.() ?? 0,
})

/** Like the runner's token, it is new at each start and kept in the machine's record, so that the next daemon can use the endpoint. */
export const newEgressToken = (): string => randomBytes(32).toString('base64url')

function idOf(dataDir: string): number {
  return ROOTS_IDS.first + (createHash('sha256').update(dataDir).digest().readUInt32BE() % ROOTS_IDS.count)
}

/** Root in a container may lack them. */
function hasNeededCapabilities(): boolean {
  const effective = readFileSync('/proc/self/status', 'utf8').match(/^CapEff:\s+([0-9a-f]+)$/m)?.[1] ?? '0'
  return (BigInt(`0x${effective}`) & NEEDED_CAPABILITIES) === NEEDED_CAPABILITIES
}
