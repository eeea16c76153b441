// The hash of a certificate's subject that names its file in OpenSSL's folder of certificates, as `openssl x509 -hash` prints it.
import { createHash } from 'node:crypto'
import { SandglassError } from '@sandglass/contract/tables'
import { type Element, readElements } from './der.ts'

const [UTF8_STRING, PRINTABLE_STRING, IA5_STRING, SEQUENCE, SET, VERSION] = [0x0c, 0x13, 0x16, 0x30, 0x31, 0xa0]
const TEXT: readonly (number | undefined)[] = [UTF8_STRING, PRINTABLE_STRING, IA5_STRING]
/** The place of the subject behind the version: serial number, algorithm, issuer and validity come before it. */
const SUBJECT = 4

/** SHA-1 of the subject in OpenSSL's canonical form; the first four bytes are a little-endian number. */
export function subjectHash(certificate: Buffer): string {
  const [outer] = partsOf(certificate)
  const [signed] = partsOf(outer?.content)
  const fields = partsOf(signed?.content).filter(({ tag }) => tag !== VERSION)
  const sets = partsOf(fields[SUBJECT]?.content).map(set => element(SET, partsOf(set.content).map(canonicalAttribute)))
  return createHash('sha1').update(Buffer.concat(sets)).digest().readUInt32LE().toString(16).padStart(8, '0')
}

function partsOf(bytes: Buffer | undefined): Element[] {
  const parts = bytes === undefined ? null : readElements(bytes)
  if (parts === null) throw new SandglassError('INTERNAL', { message: 'the certificate authority has no valid certificate' })
  return parts
}

/** An attribute of a name: its type, and its text in lower case, with single spaces. */
function canonicalAttribute({ content }: Element): Buffer {
  const [type, value] = partsOf(content)
  if (type === undefined || !TEXT.includes(value?.tag))
    throw new SandglassError('INTERNAL', { message: 'the name of the certificate authority is not plain text' })
  const text = value?.content.toString('latin1') ?? ''
  const canonical = text
    .replaceAll(/[ \t\n\v\f\r]+/g, ' ')
    .replaceAll(/^ | $/g, '')
    .replaceAll(/[A-Z]+/g, letters => letters.toLowerCase())
  return element(SEQUENCE, [type.whole, element(UTF8_STRING, [Buffer.from(canonical, 'latin1')])])
}

function element(tag: number, parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  const head = length < 0x80 ? [tag, length] : length < 0x100 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from(head), content])
}
