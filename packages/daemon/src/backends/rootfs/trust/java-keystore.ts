// Writes a Java keystore (JKS) with trusted certificates. Every Java reads this format as its cacerts, whatever its default format is.
import { createHash } from 'node:crypto'

const MAGIC = 0xfeedfeed
const VERSION = 2
const TRUSTED_CERTIFICATE = 2
/** Of every cacerts. The digest detects damage and protects nothing. */
const PASSWORD = 'changeit'
const SALT = 'Mighty Aphrodite'

/** The DER of certificates by alias, which is in lower case. The same certificates give the same bytes. */
export function javaKeystore(certificates: ReadonlyMap<string, Buffer>): Buffer {
  const entries = [...certificates].flatMap(([alias, der]) => [
    uint32(TRUSTED_CERTIFICATE),
    text(alias),
    // The time when the entry was made, which nothing uses.
    Buffer.alloc(8),
    text('X.509'),
    uint32(der.length),
    der,
  ])
  const content = Buffer.concat([uint32(MAGIC), uint32(VERSION), uint32(certificates.size), ...entries])
  const password = Buffer.from(PASSWORD, 'utf16le').swap16()
  return Buffer.concat([content, createHash('sha1').update(password).update(SALT).update(content).digest()])
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

/** ASCII, in Java's own encoding of text. */
function text(value: string): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(value.length)
  return Buffer.concat([length, Buffer.from(value, 'latin1')])
}
