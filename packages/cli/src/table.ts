import { styleText } from 'node:util'
import { printable } from './printable.ts'

/** Columns as wide as their widest cell, two spaces apart. Cells are made safe to print. */
export function table(head: readonly string[], rows: readonly (readonly string[])[], stream: NodeJS.WriteStream): string {
  const cells = rows.map(row => row.map(printable))
  const widths = head.map((title, i) => Math.max(title.length, ...cells.map(row => row[i]?.length ?? 0)))
  const line = (row: readonly string[]) =>
    row.map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0))).join('  ')
  return `${[styleText('bold', line(head), { stream }), ...cells.map(line)].join('\n')}\n`
}
