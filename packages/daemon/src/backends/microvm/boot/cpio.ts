// Writes cpio archives in the "newc" format, which the kernel unpacks as its initramfs.

export interface CpioEntry {
  readonly name: string
  /** File type and permissions, as in st_mode. */
  readonly mode: number
  readonly content: Buffer
}

const MAGIC = '070701'
const TRAILER = 'TRAILER!!!'
const FOLDER = 0o040755
const FILE = 0o100644
const PROGRAM = 0o100755

export const folder = (name: string): CpioEntry => ({ name, mode: FOLDER, content: Buffer.alloc(0) })
export const file = (name: string, content: Buffer): CpioEntry => ({ name, mode: FILE, content })
export const program = (name: string, content: Buffer): CpioEntry => ({ name, mode: PROGRAM, content })

/** Deterministic: times and owners are zero. */
export function cpioArchive(entries: readonly CpioEntry[]): Buffer {
  const parts = entries.flatMap((entry, i) => encode(entry, i + 1))
  return Buffer.concat([...parts, ...encode({ name: TRAILER, mode: 0, content: Buffer.alloc(0) }, 0)])
}

function encode({ name, mode, content }: CpioEntry, inode: number): Buffer[] {
  const bytes = Buffer.from(`${name}\0`)
  // inode, mode, uid, gid, links, time, size, two device numbers, two more for device files, length of the name, check (unused)
  const fields = [inode, mode, 0, 0, 1, 0, content.length, 0, 0, 0, 0, bytes.length, 0]
  const header = Buffer.from(MAGIC + fields.map(field => field.toString(16).padStart(8, '0')).join(''))
  return [header, bytes, padding(header.length + bytes.length), content, padding(content.length)]
}

function padding(length: number): Buffer {
  return Buffer.alloc((4 - (length % 4)) % 4)
}
