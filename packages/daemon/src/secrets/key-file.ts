// The key that seals values in the database: 32 random bytes in a file of its own. It is created only while no sealed value needs an older key.
import { createHash, randomBytes } from 'node:crypto'
import { SandglassError } from '@sandglass/contract'
import { readOrCreatePrivate, readPrivate } from '../data-dir/private-file.ts'
import type { Store } from '../store/open.ts'
import { hasSealed, readKeyFingerprint, writeKeyFingerprint } from '../store/secrets.ts'

const KEY_BYTES = 32

/**
 * The file is complete before the first row is sealed, so a crash between the two leaves a key without rows, which is harmless. The
 * database stores a fingerprint of its key: another key could seal new values, but not unseal the stored ones.
 */
export async function openSecretKey(path: string, store: Store, storePath: string): Promise<Buffer> {
  if (readPrivate(path) === null && (await hasSealed(store)))
    throw new SandglassError('SECRET_KEY_LOST', { path, why: 'is missing', store: storePath })
  const key = readOrCreatePrivate(path, () => randomBytes(KEY_BYTES))
  if (key.length !== KEY_BYTES) throw new SandglassError('CONFIG_INVALID', { source: path, issue: `must be ${KEY_BYTES} bytes` })
  const known = await readKeyFingerprint(store)
  if (known === fingerprint(key)) return key
  if (known !== undefined && (await hasSealed(store)))
    throw new SandglassError('SECRET_KEY_LOST', { path, why: 'is another key', store: storePath })
  await writeKeyFingerprint(store, fingerprint(key))
  return key
}

/** SECURITY: a digest of 32 random bytes reveals nothing about them. */
const fingerprint = (key: Buffer) => createHash('sha256').update('sandglass secret key').update(key).digest('hex').slice(0, 32)
