import { describe, expect, it } from 'vitest'
import { seal, sealEnv, unseal, unsealEnv } from './encryption.ts'

const KEY = Buffer.alloc(32, 7)

describe('a sealed value', () => {
  it('decrypts only with its key and for its owner', () => {
    const sealed = seal(KEY, 'secret:a', 'hush ✓')
    expect(unseal(KEY, 'secret:a', sealed, 'it')).toBe('hush ✓')
    const refused = expect.objectContaining({ code: 'SECRET_UNREADABLE' })
    expect(() => unseal(KEY, 'secret:b', sealed, 'it')).toThrow(refused)
    expect(() => unseal(Buffer.alloc(32, 8), 'secret:a', sealed, 'it')).toThrow(refused)
  })

  it('differs each time that the same text is sealed', () => {
    const [one, two] = [seal(KEY, 'a', 'hush'), seal(KEY, 'a', 'hush')]
    expect(one.nonce.equals(two.nonce)).toBe(false)
    expect(one.ciphertext.equals(two.ciphertext)).toBe(false)
  })

  it('that was changed, cut off or extended does not decrypt', () => {
    const { nonce, ciphertext } = seal(KEY, 'a', 'hush')
    const flipped = (bytes: Buffer, at: number) => Buffer.from(bytes.map((byte, i) => (i === at ? byte ^ 1 : byte)))
    const spoiled = [
      ...[...nonce.keys()].map(at => ({ nonce: flipped(nonce, at), ciphertext })),
      ...[...ciphertext.keys()].map(at => ({ nonce, ciphertext: flipped(ciphertext, at) })),
      ...[...ciphertext.keys()].map(at => ({ nonce, ciphertext: ciphertext.subarray(0, at) })),
      { nonce, ciphertext: Buffer.concat([ciphertext, Buffer.alloc(1)]) },
      { nonce: Buffer.alloc(0), ciphertext },
    ]
    for (const sealed of spoiled) {
      expect(() => unseal(KEY, 'a', sealed, 'the secret a')).toThrow(
        expect.objectContaining({
          code: 'SECRET_UNREADABLE',
          message: expect.stringContaining('the secret a cannot be decrypted'),
        }),
      )
    }
  })
})

describe('a sealed environment', () => {
  it('decrypts only for its session', () => {
    const sealed = sealEnv(KEY, 'sess_a', { A: 'secret' })
    expect(unsealEnv(KEY, 'sess_a', sealed)).toEqual({ A: 'secret' })
    expect(() => unsealEnv(KEY, 'sess_b', sealed)).toThrow('the environment of sess_b cannot be decrypted')
  })

  it('does not decrypt as a secret of the same name', () => {
    const sealed = sealEnv(KEY, 'sess_a', { A: 'secret' })
    const parts = { nonce: sealed.subarray(0, 12), ciphertext: sealed.subarray(12) }
    expect(() => unseal(KEY, 'secret:sess_a', parts, 'it')).toThrow(expect.objectContaining({ code: 'SECRET_UNREADABLE' }))
  })
})
