import fc from 'fast-check'
import { expect, test } from 'vitest'
import { closePayload, encodeFrame, type Frame, FrameReader, MAX_MESSAGE, OPCODES, readClose } from './frames.ts'

/** Lengths on both sides of where their form changes. */
const LENGTHS = [0, 1, 125, 126, 127, 0xffff, 0x1_0000, 70_000]

const frames = fc.array(
  fc.record({
    opcode: fc.constantFrom(OPCODES.text, OPCODES.binary, OPCODES.continuation),
    isFinal: fc.boolean(),
    payload: fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc.constantFrom(...LENGTHS).map(length => new Uint8Array(length).fill(length & 0xff)),
    ),
  }),
  { minLength: 1, maxLength: 6 },
)

/** As a server writes it: no mask. */
function serverFrame({ opcode, isFinal, payload }: { opcode: number; isFinal: boolean; payload: Uint8Array }): Uint8Array {
  const size = payload.length
  const long = size > 0xffff
  const header = new Uint8Array(long ? 10 : size > 125 ? 4 : 2)
  const view = new DataView(header.buffer)
  view.setUint8(0, (isFinal ? 0x80 : 0) | opcode)
  view.setUint8(1, long ? 127 : size > 125 ? 126 : size)
  if (long) view.setBigUint64(2, BigInt(size))
  else if (size > 125) view.setUint16(2, size)
  return Buffer.concat([header, payload])
}

const read = (reader: FrameReader, bytes: Uint8Array): Frame[] => [...reader.read(new Uint8Array(bytes))]

test('frames are the same however the bytes are split', () => {
  fc.assert(
    fc.property(frames, fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 30 }), (sent, cuts) => {
      const bytes = Buffer.concat(sent.map(serverFrame))
      const edges = [0, ...cuts.map(cut => Math.round(cut * bytes.length)).sort((a, b) => a - b), bytes.length]
      const reader = new FrameReader()
      const got = edges.slice(1).flatMap((end, i) => read(reader, bytes.subarray(edges[i], end)))
      expect(got.map(plain)).toEqual(sent.map(plain))
    }),
  )
})

test('frames that come byte by byte are complete with their last byte', () => {
  const sent = LENGTHS.filter(length => length < 200).map(length => ({
    opcode: OPCODES.binary,
    isFinal: true,
    payload: new Uint8Array(length).fill(7),
  }))
  const reader = new FrameReader()
  for (const frame of sent) {
    const bytes = serverFrame(frame)
    for (const byte of bytes.subarray(0, -1)) expect(read(reader, Uint8Array.of(byte))).toEqual([])
    expect(read(reader, bytes.subarray(-1)).map(plain)).toEqual([plain(frame)])
  }
})

test('a written frame is masked, and unmasking it gives the payload', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array({ maxLength: 300 }),
        fc.constantFrom(...LENGTHS).map(length => new Uint8Array(length)),
      ),
      fc.uint8Array({ minLength: 4, maxLength: 4 }),
      (payload, mask) => {
        const frame = encodeFrame(OPCODES.binary, payload, mask)
        const start = frame.length - payload.length
        expect(frame[0]).toBe(0x82)
        expect((frame[1] ?? 0) & 0x80).toBe(0x80)
        expect([...frame.subarray(start - 4, start)]).toEqual([...mask])
        expect(
          Buffer.compare(
            frame.subarray(start).map((byte, i) => byte ^ (mask[i % 4] ?? 0)),
            payload,
          ),
        ).toBe(0)
      },
    ),
  )
})

test.each([
  ['a reserved bit', [0xc2, 0x00], 1002],
  ['an opcode that there is not', [0x83, 0x00], 1002],
  ['a mask', [0x82, 0x80], 1002],
  ['a control frame in parts', [0x09, 0x00], 1002],
  ['a control frame that is too long', [0x89, 126, 0, 126], 1002],
  ['more bytes than a message may have', [0x82, 127, 0, 0, 0, 0, 0x01, 0, 0, 1], 1009],
  ['a length beyond every number', [0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 1009],
])('%s is refused by the header alone', (_, bytes, closeCode) => {
  expect(() => read(new FrameReader(), Uint8Array.from(bytes))).toThrow(expect.objectContaining({ closeCode }))
})

test('the largest message is announced and waited for', () => {
  const header = Buffer.from([0x82, 127, 0, 0, 0, 0, 0, 0, 0, 0])
  header.writeBigUInt64BE(BigInt(MAX_MESSAGE), 2)
  expect(read(new FrameReader(), header)).toEqual([])
})

test('a close has a code and a reason, which is cut to what fits', () => {
  expect(readClose(closePayload(1011, 'RUNNER_LOST'))).toEqual({ code: 1011, reason: 'RUNNER_LOST' })
  expect(readClose(new Uint8Array())).toEqual({ code: 1005, reason: '' })
  expect(closePayload(1000, 'é'.repeat(200)).length).toBeLessThanOrEqual(125)
  expect(readClose(closePayload(1000, 'é'.repeat(200))).reason).toBe('é'.repeat(61))
})

test.each([[[3]], [[3, 237]], [[0, 5]], [[19, 136]]])('a close frame with the bytes %s is refused', bytes => {
  expect(() => readClose(Uint8Array.from(bytes))).toThrow(expect.objectContaining({ closeCode: 1002 }))
})

const plain = ({ opcode, isFinal, payload }: Pick<Frame, 'opcode' | 'isFinal'> & { payload: Uint8Array }) => [
  opcode,
  isFinal,
  Buffer.from(payload).toString('latin1'),
]
