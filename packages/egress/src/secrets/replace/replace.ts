// Replaces byte strings in a buffer or a stream. The result is the same for every division of the stream into chunks.
import { Transform } from 'node:stream'
import { compilePatterns, type Patterns, type Replacement } from './patterns.ts'

/** Replaces in a body of any length, in constant memory. */
export function replaceInStream(patterns: Patterns): Transform {
  const replacer = createReplacer(patterns)
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      done(null, emptyToNull(replacer.push(chunk)))
    },
    flush(done) {
      done(null, emptyToNull(replacer.end()))
    },
  })
}

/** Replaces in a body as `maskRequest` asks for it. */
export const replaceInBody = (replacements: readonly Replacement[]): Transform => replaceInStream(compilePatterns(replacements))

export function replaceInBuffer(patterns: Patterns, buffer: Buffer): Buffer {
  const replacer = createReplacer(patterns)
  const result = replacer.push(buffer)
  const rest = replacer.end()
  return rest.length === 0 ? result : Buffer.concat([result, rest])
}

export interface Replacer {
  push(chunk: Buffer): Buffer
  end(): Buffer
}

/** Holds back the end of the data while it can be the beginning of a pattern. An event of a stream that ends in a line break is passed on at once. */
export function createReplacer(patterns: Patterns): Replacer {
  let held: Buffer = Buffer.alloc(0)

  function replace(buffer: Buffer, isLast: boolean): Buffer {
    const pieces: Buffer[] = []
    let position = 0
    let end = isLast ? buffer.length : patterns.findHeldEnd(buffer, 0)
    let match = patterns.find(buffer, 0)
    // A match that starts in the held end waits: a longer pattern may start earlier, or at the same byte.
    while (match !== null && match.start < end) {
      pieces.push(buffer.subarray(position, match.start), match.replacement.to)
      position = match.start + match.replacement.from.length
      if (end < position) end = isLast ? buffer.length : patterns.findHeldEnd(buffer, position)
      match = patterns.find(buffer, position)
    }
    held = Buffer.from(buffer.subarray(end))
    if (pieces.length === 0) return buffer.subarray(0, end)
    pieces.push(buffer.subarray(position, end))
    return Buffer.concat(pieces)
  }

  return {
    push: chunk => replace(held.length === 0 ? chunk : Buffer.concat([held, chunk]), false),
    end: () => replace(held, true),
  }
}

const emptyToNull = (buffer: Buffer): Buffer | null => (buffer.length === 0 ? null : buffer)
