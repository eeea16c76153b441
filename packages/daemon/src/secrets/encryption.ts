// Encrypts values at rest with AES-256-GCM. The key is outside the database.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { SandglassError } from '@sandglass/contract'

const NONCE_BYTES = 12
const TAG_BYTES = 16

/** `ciphertext` starts with the authentication tag. */
export type Sealed = { nonce: Buffer; ciphertext: Buffer }

/** SECURITY: `owner` is authenticated too, so that a value that was copied to another row does not decrypt there. */
export function seal(key: Buffer, owner: string, text: string): Sealed {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(owner))
  const hidden = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return { nonce, ciphertext: Buffer.concat([cipher.getAuthTag(), hidden]) }
}

/** Fails for bytes that were changed, copied from another row, or sealed with another key. `what` names the value in the error. */
export function unseal(key: Buffer, owner: string, { nonce, ciphertext }: Sealed, what: string): string {
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES })
    decipher.setAAD(Buffer.from(owner)).setAuthTag(ciphertext.subarray(0, TAG_BYTES))
    return Buffer.concat([decipher.update(ciphertext.subarray(TAG_BYTES)), decipher.final()]).toString('utf8')
  } catch (cause) {
    throw new SandglassError('SECRET_UNREADABLE', { what }, { cause })
  }
}

/** The environment of a session in the format of its row: nonce, tag, ciphertext. */
export function sealEnv(key: Buffer, sessionId: string, env: Readonly<Record<string, string>>): Buffer {
  const { nonce, ciphertext } = seal(key, sessionId, JSON.stringify(env))
  return Buffer.concat([nonce, ciphertext])
}

export function unsealEnv(key: Buffer, sessionId: string, sealed: Buffer): Record<string, string> {
  const parts = { nonce: sealed.subarray(0, NONCE_BYTES), ciphertext: sealed.subarray(NONCE_BYTES) }
  return JSON.parse(unseal(key, sessionId, parts, `the environment of ${sessionId}`))
}
