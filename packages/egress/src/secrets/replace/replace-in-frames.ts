// Replaces byte strings in the messages that a WebSocket server sends. A message leaves as soon as it is complete, and frames keep their lengths.
import { Transform } from 'node:stream'
import type { Patterns } from './patterns.ts'
import { createReplacer, type Replacer } from './replace.ts'

const MASKED = 0x80
const LENGTH_16 = 126
const LENGTH_64 = 127

/** `patterns` change no length. A value that is divided between two frames is not found. */
export function replaceInFrames(patterns: Patterns): Transform {
  let header: Buffer = Buffer.alloc(0)
  let left = 0
  let replacer: Replacer | null = null

  /** Consumes bytes of a header; returns those after it. */
  function readHeader(bytes: Buffer): Buffer {
    const all = Buffer.concat([header, bytes])
    const length = headerLength(all)
    if (length === null) {
      header = all
      return Buffer.alloc(0)
    }
    left = payloadLength(all)
    // A server does not mask; what is masked cannot be read.
    replacer = left === 0 || ((all[1] ?? 0) & MASKED) !== 0 ? null : createReplacer(patterns)
    header = Buffer.alloc(0)
    stream.push(all.subarray(0, length))
    return all.subarray(length)
  }

  function readPayload(bytes: Buffer): Buffer {
    const part = bytes.subarray(0, left)
    left -= part.length
    const out = replacer === null ? [part] : [replacer.push(part), ...(left === 0 ? [replacer.end()] : [])]
    for (const piece of out) if (piece.length > 0) stream.push(piece)
    return bytes.subarray(part.length)
  }

  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      for (let rest = chunk; rest.length > 0; ) rest = left === 0 ? readHeader(rest) : readPayload(rest)
      done()
    },
  })
  return stream
}

/** Null while bytes of the header are missing. */
function headerLength(bytes: Buffer): number | null {
  const second = bytes[1]
  if (second === undefined) return null
  const kind = second & 0x7f
  const length = 2 + (kind === LENGTH_16 ? 2 : kind === LENGTH_64 ? 8 : 0) + ((second & MASKED) !== 0 ? 4 : 0)
  return bytes.length < length ? null : length
}

function payloadLength(bytes: Buffer): number {
  const kind = (bytes[1] ?? 0) & 0x7f
  if (kind === LENGTH_16) return bytes.readUInt16BE(2)
  return kind === LENGTH_64 ? Number(bytes.readBigUInt64BE(2)) : kind
}
