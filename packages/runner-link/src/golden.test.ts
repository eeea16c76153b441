// The files in runner/testdata are written by the runner's tests: <name>.bin is what travels, <name>.json what it means.
import { readdirSync, readFileSync } from 'node:fs'
import { PassThrough, Readable } from 'node:stream'
import { crc32 } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { CREDIT, DATA, END, FrameParser, frameHeader, OPEN, RESET } from './mux-frames.ts'
import type { Message } from './wire.ts'
import { MessageReader, writeMessage } from './wire.ts'

const FOLDER = new URL('../../../runner/testdata/', import.meta.url)
const KINDS = { OPEN, DATA, CREDIT, END, RESET }

type Frame = { from?: string; kind: keyof typeof KINDS; stream: number; payload?: string; credit?: number }
type Golden = { from: string; message?: Message; body?: string; frames?: Frame[] }

const goldens = readdirSync(FOLDER)
  .filter(file => file.endsWith('.json'))
  .map(file => {
    const golden: Golden = JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8'))
    return { name: file.slice(0, -'.json'.length), golden, wire: readFileSync(new URL(file.replace('.json', '.bin'), FOLDER)) }
  })
const messages = goldens.flatMap(({ name, golden, wire }) =>
  golden.message ? [{ name, from: golden.from, message: golden.message, body: golden.body, wire }] : [],
)
const carriers = goldens.flatMap(({ name, golden, wire }) =>
  golden.frames ? [{ name, from: golden.from, frames: golden.frames, wire }] : [],
)

it('there are golden messages and golden frames', () => {
  expect(messages.length).toBeGreaterThan(5)
  expect(carriers.length).toBeGreaterThan(3)
})

it.each(messages)('the golden message $name is decoded', async ({ message, body, wire }) => {
  const reader = new MessageReader(Readable.from([wire], { objectMode: false }))
  expect(await reader.next()).toEqual(message)
  expect(String(await reader.collect())).toBe(body ?? '')
  expect(await reader.next()).toBeNull()
})

it.each(messages.filter(m => m.from === 'client'))(
  'the golden message $name is written byte for byte',
  ({ message, body, wire }) => {
    const out = new PassThrough()
    writeMessage(out, message, body === undefined ? undefined : Buffer.from(body))
    expect(String(out.read())).toBe(String(wire))
  },
)

describe.each(carriers)('the golden frames $name', ({ frames, wire }) => {
  it('are written byte for byte', () => {
    expect(Buffer.concat(frames.map(encode)).equals(wire)).toBe(true)
  })

  it('are read as they were meant, in pieces of any size', () => {
    // OPEN alone is never sent to a client.
    const received = frames.filter(frame => frame.kind !== 'OPEN')
    const bytes = Buffer.concat(received.map(encode))
    for (let size = 1; size <= bytes.length; size++) {
      const parsed: Frame[] = []
      const parser = new FrameParser({
        data: (stream, payload) => join(parsed, stream, payload.toString()),
        credit: (stream, credit) => parsed.push({ kind: 'CREDIT', stream, credit }),
        end: stream => parsed.push({ kind: 'END', stream }),
        reset: stream => parsed.push({ kind: 'RESET', stream }),
      })
      for (let at = 0; at < bytes.length; at += size) parser.push(bytes.subarray(at, at + size))
      expect(parsed).toEqual(joined(received))
    }
  })
})

function encode({ kind, stream, payload = '', credit }: Frame): Buffer {
  const content = credit === undefined ? Buffer.from(payload) : Buffer.alloc(4)
  if (credit !== undefined) content.writeUInt32BE(credit)
  return Buffer.concat([frameHeader(KINDS[kind], stream, content.length, crc32(content)), content])
}

/** A parser hands data on as it arrives, so only what belongs together counts. */
function join(frames: Frame[], stream: number, payload: string): void {
  const last = frames.at(-1)
  if (last?.kind === 'DATA' && last.stream === stream) last.payload += payload
  else frames.push({ kind: 'DATA', stream, payload })
}

function joined(frames: Frame[]): Frame[] {
  const result: Frame[] = []
  for (const { from: _, ...frame } of frames) {
    if (frame.kind === 'DATA') join(result, frame.stream, frame.payload ?? '')
    else result.push(frame)
  }
  return result
}
