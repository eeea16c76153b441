// Builds small ustar archives byte by byte, so that tests can write what no archiver would.

export type TarEntry = { name: string; text?: string; hardlink?: string; symlink?: string; type?: string }

export function tarOf(entries: TarEntry[]): Buffer {
  const blocks = entries.flatMap(entry => {
    const data = Buffer.from(entry.text ?? '')
    const padding = Buffer.alloc((512 - (data.length % 512)) % 512)
    return [header(entry, data.length), data, padding]
  })
  return Buffer.concat([...blocks, Buffer.alloc(1024)])
}

function header(entry: TarEntry, size: number): Buffer {
  const block = Buffer.alloc(512)
  const octal = (value: number, at: number, width: number) => block.write(`${value.toString(8).padStart(width - 1, '0')}\0`, at)
  block.write(entry.name, 0, 100)
  octal(0o644, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  octal(size, 124, 12)
  octal(0, 136, 12)
  block.write('        ', 148)
  block.write(entry.type ?? (entry.hardlink ? '1' : entry.symlink ? '2' : '0'), 156)
  block.write(entry.hardlink ?? entry.symlink ?? '', 157, 100)
  block.write('ustar\x0000', 257)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return block
}
