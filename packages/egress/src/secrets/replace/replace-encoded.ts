// Replaces byte strings in a compressed body; the result is not compressed.
import { Duplex } from 'node:stream'
import { constants, createGunzip, createInflate } from 'node:zlib'
import type { Patterns } from './patterns.ts'
import { createReplacer } from './replace.ts'

/**
 * Null for an encoding that is not known. Memory is constant however far the body expands: decoding waits for the reader. A body that is cut
 * short or damaged is an error; one without any byte is empty.
 */
export function replaceInEncoded(encoding: string, patterns: Patterns): Duplex | null {
  const decoder = createDecoder(encoding)
  if (decoder === null) return null
  const replacer = createReplacer(patterns)
  let isEmpty = true
  const duplex = new Duplex({
    write(chunk: Buffer, _encoding, done) {
      if (chunk.length === 0) return done()
      isEmpty = false
      decoder.write(chunk, done)
    },
    final(done) {
      if (isEmpty) duplex.push(null)
      else decoder.end()
      done()
    },
    read() {
      decoder.resume()
    },
    destroy(error, done) {
      decoder.destroy()
      done(error)
    },
  })
  decoder.on('data', (chunk: Buffer) => {
    const replaced = replacer.push(chunk)
    if (replaced.length > 0 && !duplex.push(replaced)) decoder.pause()
  })
  decoder.on('end', () => {
    const rest = replacer.end()
    if (rest.length > 0) duplex.push(rest)
    duplex.push(null)
  })
  decoder.on('error', error => duplex.destroy(error))
  return duplex
}

/** Z_SYNC_FLUSH gives the data of each chunk at once. deflate is the zlib format (RFC 9110). */
function createDecoder(encoding: string) {
  const options = { flush: constants.Z_SYNC_FLUSH }
  if (encoding === 'gzip' || encoding === 'x-gzip') return createGunzip(options)
  return encoding === 'deflate' ? createInflate(options) : null
}
