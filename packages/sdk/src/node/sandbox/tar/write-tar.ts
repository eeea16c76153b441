// Makes a tar, entry by entry.

export type NewEntry = {
  name: string
  type: 'file' | 'directory' | 'symlink'
  mode: number
  size?: number
  /** What a symbolic link points to. */
  target?: string
}

const BLOCK = 512
/** The largest size that a header can hold. */
export const MAX_ENTRY_BYTES = 8 * 1024 ** 3 - 1

/** The header of an entry, with a pax header before it if its name or target does not fit. */
export function headerOf(entry: NewEntry): Uint8Array[] {
  const { name, target = '' } = entry
  const records = [...record('path', name), ...record('linkpath', target)]
  if (records.length === 0) return [block(entry, TYPES[entry.type])]
  const pax = new Uint8Array(records)
  const header = block({ name: 'pax', type: 'file', mode: 0o644, size: pax.length }, 'x')
  return [header, pax, padding(pax.length), block({ ...entry, name: 'entry', target: '' }, TYPES[entry.type])]
}

/** What follows the bytes of a file. */
export const padding = (size: number) => new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK)

/** What ends an archive. */
export const END = new Uint8Array(2 * BLOCK)

const TYPES = { file: '0', directory: '5', symlink: '2' } as const
const bytesOf = (text: string) => new TextEncoder().encode(text)

/** `LENGTH key=value\n`, where LENGTH counts the whole record; nothing for a value that fits into the header. */
function record(key: string, value: string): Uint8Array {
  if (bytesOf(value).length < 100) return new Uint8Array()
  const rest = bytesOf(` ${key}=${value}\n`).length
  let length = rest + String(rest).length
  if (String(length).length > String(rest).length) length = rest + String(length).length
  return bytesOf(`${length} ${key}=${value}\n`)
}

/** Without owner and time, so that the same files give the same archive. */
function block({ name, mode, size = 0, target = '' }: NewEntry, type: string): Uint8Array {
  const header = new Uint8Array(BLOCK)
  const put = (at: number, value: string) => header.set(bytesOf(value), at)
  const octal = (value: number, digits: number) => value.toString(8).padStart(digits, '0')
  put(0, name)
  put(100, octal(mode & 0o777, 7))
  put(108, octal(0, 7))
  put(116, octal(0, 7))
  put(124, octal(size, 11))
  put(136, octal(0, 11))
  put(148, ' '.repeat(8))
  put(156, type)
  put(157, target)
  put(257, 'ustar\x0000')
  put(
    148,
    `${octal(
      header.reduce((sum, byte) => sum + byte, 0),
      6,
    )}\0 `,
  )
  return header
}
