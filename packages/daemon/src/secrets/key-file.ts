// The key that seals what the database keeps: 32 random bytes in a file of their own, made when there is nothing yet that needs an older one.
import { createHash, randomBytes } from 'node:crypto'
import { SandglassError } from '@sandglass/contract'
import { readOrCreatePrivate, readPrivate } from '../data-dir/private-file.ts'
import type { Store } from '../store/open.ts'
import { hasSealed, readKeyMark, writeKeyMark } from '../store/secrets.ts'

const KEY_BYTES = 32

/**
 * The file is whole before the first row is sealed with it, so that a crash between the two leaves a key without rows, which is fine. The
 * database remembers a mark of its key: with another one it could seal, but not open what is there.
 */
export async function openSecretKey(path: string, store: Store, storePath: string): Promise<Buffer> {
  if (readPrivate(path) === null && (await hasSealed(store)))
    throw new SandglassError('SECRET_KEY_LOST', { path, why: 'is missing', store: storePath })
  const key = readOrCreatePrivate(path, () => randomBytes(KEY_BYTES))
  if (key.length !== KEY_BYTES) throw new SandglassError('CONFIG_INVALID', { source: path, issue: `must be ${KEY_BYTES} bytes` })
  const known = await readKeyMark(store)
  if (known === markOf(key)) return key
  if (known !== undefined && (await hasSealed(store)))
    throw new SandglassError('SECRET_KEY_LOST', { path, why: 'is another key', store: storePath })
  await writeKeyMark(store, markOf(key))
  return key
}

/** SECURITY: a digest of 32 random bytes says nothing about them. */
const markOf = (key: Buffer) => createHash('sha256').update('sandglass secret key').update(key).digest('hex').slice(0, 32)
