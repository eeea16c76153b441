import { once } from 'node:events'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compilePatterns } from './patterns.ts'
import { replaceInFrames } from './replace-in-frames.ts'

const PATTERNS = compilePatterns([{ from: Buffer.from('real-value'), to: Buffer.from('surrogate1') }])

/** A frame of a server. */
function frame(text: string): Buffer {
  const { length } = text
  const header = length < 126 ? [0x81, length] : [0x81, 126, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from(header), Buffer.from(text)])
}

async function through(data: Buffer, cut: number): Promise<Buffer> {
  const stream = replaceInFrames(PATTERNS)
  const parts: Buffer[] = []
  stream.on('data', part => parts.push(part))
  for (let at = 0; at < data.length; at += cut) stream.write(data.subarray(at, at + cut))
  stream.end()
  await once(stream, 'end')
  return Buffer.concat(parts)
}

describe('the frames of a WebSocket', () => {
  it('have the surrogate in the place of the value, wherever the bytes are cut', async () => {
    const texts = ['hello', 'a real-value here', `long ${'x'.repeat(300)} real-value`, '']
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 50 }), async cut => {
        const out = await through(Buffer.concat(texts.map(frame)), cut)
        expect(out).toEqual(Buffer.concat(texts.map(text => frame(text.replace('real-value', 'surrogate1')))))
      }),
    )
  })

  it('leave when they are complete, also if they end in a word', async () => {
    const stream = replaceInFrames(PATTERNS)
    const parts: Buffer[] = []
    stream.on('data', part => parts.push(part))
    stream.write(frame('hello'))
    await expect.poll(() => Buffer.concat(parts).toString('latin1')).toBe(frame('hello').toString('latin1'))
    stream.destroy()
  })
})
