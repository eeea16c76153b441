import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_CHUNK_BYTES, resignChunks } from './chunked-body.ts'
import { createSigner } from './sign.ts'

// Keys, seeds and signatures of the examples in the S3 API reference: a body of 65 KiB of the letter a, in chunks of 64 KiB.
const EXAMPLE = { access_key_id: 'AKIAIOSFODNN7EXAMPLE', secret_access_key: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY' }
const SCOPE = { keyId: EXAMPLE.access_key_id, date: '20130524', region: 'us-east-1', service: 's3' }
const SEED = '4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9'
const TRAILER_SEED = '106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e'
const SIZES = [65_536, 1024]

const signer = createSigner(EXAMPLE, SCOPE, '20130524T000000Z')

const chunkOf = (size: number, signature: string) =>
  `${size.toString(16)};chunk-signature=${signature}\r\n${'a'.repeat(size)}\r\n`
const FORGED = '0'.repeat(64)

function bodyOf(sizes: readonly number[], signatures: readonly string[], end = '\r\n'): Buffer {
  const chunks = sizes.map((size, i) => chunkOf(size, signatures[i] ?? FORGED))
  return Buffer.from(`${chunks.join('')}0;chunk-signature=${signatures[sizes.length] ?? FORGED}\r\n${end}`)
}

async function resign(parts: Iterable<Buffer>, seed = SEED, hasTrailer = false): Promise<Buffer> {
  const transform = resignChunks(signer, seed, hasTrailer)
  const [, result] = await Promise.all([pipeline(Readable.from(parts), transform), buffer(transform)])
  return result
}

const PUBLISHED = [
  'ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648',
  '0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497',
  'b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9',
]
const PUBLISHED_WITH_TRAILER = [
  'b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2',
  '1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7',
  '2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992',
]
const trailer = (signature: string) => `x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:${signature}\r\n\r\n`

describe('signed chunks', () => {
  it('get the signatures of the published example, and the body keeps its length', async () => {
    const sent = bodyOf(SIZES, [])
    expect(sent).toHaveLength(66_824)
    expect(await resign([sent])).toEqual(bodyOf(SIZES, PUBLISHED))
  })

  it('and a trailer get the signatures of the published example', async () => {
    const result = await resign([bodyOf(SIZES, [], trailer(FORGED))], TRAILER_SEED, true)
    const signature = 'd81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435'
    expect(result.toString()).toBe(bodyOf(SIZES, PUBLISHED_WITH_TRAILER, trailer(signature)).toString())
  })

  it('and a trailer with an empty line before its signature are signed, too', async () => {
    const odd = (signature: string) => `x-amz-checksum-crc32c:sOO8/Q==\n\r\nx-amz-trailer-signature:${signature}\r\n\r\n`
    const [plain, result] = await Promise.all([
      resign([bodyOf(SIZES, [], trailer(FORGED))], TRAILER_SEED, true),
      resign([bodyOf(SIZES, [], odd(FORGED))], TRAILER_SEED, true),
    ])
    const signature = /trailer-signature:([0-9a-f]{64})/.exec(plain.toString())?.[1] ?? ''
    expect(result.toString()).toBe(bodyOf(SIZES, PUBLISHED_WITH_TRAILER, odd(signature)).toString())
  })

  it('are the same for every division into pieces', async () => {
    const sent = bodyOf([5, 300, 1], [], trailer(FORGED))
    const whole = await resign([sent], TRAILER_SEED, true)
    expect(whole).toHaveLength(sent.length)
    expect(whole.includes(FORGED)).toBe(false)
    for (let cut = 1; cut < sent.length; cut++) {
      expect(await resign([sent.subarray(0, cut), sent.subarray(cut)], TRAILER_SEED, true)).toEqual(whole)
    }
    const cuts = fc.array(fc.nat(sent.length), { maxLength: 40 })
    await fc.assert(
      fc.asyncProperty(cuts, async places => {
        const sorted = [0, ...places.toSorted((a, b) => a - b), sent.length]
        const parts = sorted.slice(1).map((end, i) => sent.subarray(sorted[i], end))
        expect(await resign(parts, TRAILER_SEED, true)).toEqual(whole)
      }),
    )
    expect(
      await resign(
        Array.from(sent, byte => Buffer.from([byte])),
        TRAILER_SEED,
        true,
      ),
    ).toEqual(whole)
  })

  it('are given on while the body still arrives', async () => {
    const transform = resignChunks(signer, SEED, false)
    const arrived = new Promise<Buffer>(resolve => transform.once('data', resolve))
    transform.write(bodyOf(SIZES, []).subarray(0, 65_536 + 90))
    expect((await arrived).toString()).toContain(PUBLISHED[0])
    transform.destroy()
  })

  it.each<[string, string, boolean]>([
    ['a line that is no header', 'hello\r\n', false],
    ['a chunk without signature', '5\r\naaaaa\r\n', false],
    ['another extension', `5;chunk-signature=${FORGED};x=1\r\naaaaa\r\n`, false],
    ['a line without end', 'a'.repeat(1000), false],
    ['a size with a sign', `-5;chunk-signature=${FORGED}\r\n`, false],
    ['a chunk that is longer than it says', `5;chunk-signature=${FORGED}\r\naaaaaaa\r\n`, false],
    [
      'a chunk that is larger than the memory for it',
      `${(MAX_CHUNK_BYTES + 1).toString(16)};chunk-signature=${FORGED}\r\n`,
      false,
    ],
    ['no end', chunkOf(5, FORGED), false],
    ['half of the last chunk', `0;chunk-signature=${FORGED}\r\n`, false],
    ['data after the end', `0;chunk-signature=${FORGED}\r\n\r\nmore`, false],
    ['a trailer that was not announced', `0;chunk-signature=${FORGED}\r\n${trailer(FORGED)}`, false],
    ['a trailer without signature', `0;chunk-signature=${FORGED}\r\nx-amz-checksum-crc32c:sOO8/Q==\r\n\r\n`, true],
    [
      'a trailer with a line after its signature',
      `0;chunk-signature=${FORGED}\r\na:b\r\nx-amz-trailer-signature:0\r\nc:d\r\n\r\n`,
      true,
    ],
    ['a trailer of too many lines', `0;chunk-signature=${FORGED}\r\n${'a:b\r\n'.repeat(50)}`, true],
    ['an endless trailer line', `0;chunk-signature=${FORGED}\r\na:${'b'.repeat(10_000)}`, true],
    ['nothing at all', '', false],
  ])('fail on %s', async (_, body, hasTrailer) => {
    await expect(resign(body === '' ? [] : [Buffer.from(body)], SEED, hasTrailer)).rejects.toThrow(/signed body|trailer/)
  })
})
