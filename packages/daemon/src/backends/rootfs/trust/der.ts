// Reads DER, the encoding of certificates, and finds certificates in PEM text.
// SECURITY: the certificates of an image may be anything, so they are read here and not by a library in C. Lengths are checked before use.

export interface Element {
  readonly tag: number
  readonly content: Buffer
  /** With tag and length. */
  readonly whole: Buffer
}

const SEQUENCE = 0x30
const BIT_STRING = 0x03
const PEM = /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END/g

/** The elements of which `bytes` consists, or null if it is not DER. */
export function readElements(bytes: Buffer): Element[] | null {
  const found: Element[] = []
  for (let rest = bytes; rest.length > 0; ) {
    const element = readElement(rest)
    if (element === null) return null
    found.push(element)
    rest = rest.subarray(element.whole.length)
  }
  return found
}

function readElement(bytes: Buffer): Element | null {
  const [tag, first] = bytes
  // No certificate has tags of several bytes or indefinite lengths.
  if (tag === undefined || first === undefined || (tag & 0x1f) === 0x1f || first === 0x80 || first > 0x84) return null
  const lengthBytes = first < 0x80 ? 0 : first - 0x80
  if (bytes.length < 2 + lengthBytes) return null
  const length = lengthBytes === 0 ? first : bytes.readUIntBE(2, lengthBytes)
  const end = 2 + lengthBytes + length
  return end > bytes.length ? null : { tag, content: bytes.subarray(2 + lengthBytes, end), whole: bytes.subarray(0, end) }
}

/** The DER of the certificates in a PEM file, in their order and each once. What is not a certificate is left out. */
export function certificatesIn(pem: string): Buffer[] {
  const found = new Map<string, Buffer>()
  for (const [, base64 = ''] of pem.matchAll(PEM)) {
    const der = certificateAt(Buffer.from(base64, 'base64'))
    if (der !== null) found.set(der.toString('base64'), der)
  }
  return [...found.values()]
}

/** The certificate at the start of `bytes`: OpenSSL's trusted certificates have more behind it. */
function certificateAt(bytes: Buffer): Buffer | null {
  const outer = readElement(bytes)
  const parts = outer?.tag === SEQUENCE ? readElements(outer.content) : null
  const tags = parts?.map(({ tag }) => tag).join()
  return outer !== null && tags === [SEQUENCE, SEQUENCE, BIT_STRING].join() ? outer.whole : null
}
