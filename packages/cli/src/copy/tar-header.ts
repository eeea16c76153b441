// The 512-byte block in front of every tar entry: POSIX ustar, with pax records for what does not fit.

export const BLOCK = 512

export type TarEntry = {
  name: string
  type: 'file' | 'directory' | 'symlink'
  size: number
  mode: number
  modifiedAt: number
  target?: string
}

const TYPE_FLAGS = { file: '0', directory: '5', symlink: '2' } as const

/** The blocks that announce an entry. Its content follows, padded to whole blocks. */
export function encodeHeader(entry: TarEntry): Buffer {
  const records: Record<string, string> = {}
  const name = Buffer.from(entry.type === 'directory' ? `${entry.name}/` : entry.name)
  const target = Buffer.from(entry.target ?? '')
  if (name.length > 100) records.path = name.toString()
  if (target.length > 100) records.linkpath = target.toString()
  if (entry.size > 0o77777777777) records.size = String(entry.size)
  const main = block(name.subarray(0, 100), TYPE_FLAGS[entry.type], entry, target.subarray(0, 100))
  return Object.keys(records).length > 0 ? Buffer.concat([pax(records, entry), main]) : main
}

function pax(records: Record<string, string>, entry: TarEntry): Buffer {
  const body = Buffer.concat(Object.entries(records).map(([key, value]) => record(key, value)))
  const head = block(Buffer.from('PaxHeader'), 'x', { ...entry, size: body.length }, Buffer.alloc(0))
  return Buffer.concat([head, body, Buffer.alloc(padding(body.length))])
}

/** `LENGTH key=value\n`, where the length counts its own digits. */
function record(key: string, value: string): Buffer {
  const rest = Buffer.from(` ${key}=${value}\n`)
  let length = rest.length + 1
  while (String(length).length + rest.length !== length) length++
  return Buffer.concat([Buffer.from(String(length)), rest])
}

function block(name: Buffer, typeFlag: string, entry: TarEntry, target: Buffer): Buffer {
  const header = Buffer.alloc(BLOCK)
  name.copy(header, 0)
  octal(header, 100, 8, entry.mode & 0o777)
  octal(header, 108, 8, 0)
  octal(header, 116, 8, 0)
  octal(header, 124, 12, Math.min(entry.size, 0o77777777777))
  octal(header, 136, 12, Math.max(0, Math.floor(entry.modifiedAt / 1000)))
  header.fill(0x20, 148, 156)
  header.write(typeFlag, 156)
  target.copy(header, 157)
  header.write('ustar\x0000', 257, 'latin1')
  octal(header, 148, 7, checksum(header))
  return header
}

const octal = (header: Buffer, at: number, width: number, value: number) =>
  header.write(`${value.toString(8).padStart(width - 1, '0')}\0`, at, 'latin1')

/** Sum of the header's bytes with its own field taken as spaces. */
export function checksum(header: Uint8Array): number {
  let sum = 0
  for (let i = 0; i < BLOCK; i++) sum += i >= 148 && i < 156 ? 0x20 : (header[i] ?? 0)
  return sum
}

/** Bytes from the end of a body to the next whole block. */
export const padding = (size: number) => (BLOCK - (size % BLOCK)) % BLOCK
