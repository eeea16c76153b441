// Tables that fit the terminal.
import { printable } from './printable.ts'
import { resultWidth } from './wrap.ts'

// An import of node:util or node:fs takes longer than most commands use them; getBuiltinModule loads less.
const { styleText } = process.getBuiltinModule('node:util')

const GAP = 2
/** No column is made narrower than this to fit the terminal. */
const MIN_COLUMN = 12

/**
 * Columns as wide as their widest cell, two spaces apart. Cells are made safe to print. On a narrow terminal, cells are wrapped. `below` has
 * a text for each row, which is printed under it.
 */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  stream: NodeJS.WriteStream,
  below: readonly string[] = [],
): string {
  const cells = rows.map(row => row.map(printable))
  const widths = fitted(columnWidths(head, cells), resultWidth(stream))
  const lines = cells.flatMap((row, number) => {
    const parts = row.map((cell, i) => cut(cell, widths[i] ?? 0))
    const height = Math.max(...parts.map(part => part.length))
    const under = below[number] === undefined ? [] : [`${' '.repeat(GAP)}${printable(below[number])}`]
    const own = Array.from({ length: height }, (_, i) =>
      joined(
        parts.map(part => part[i] ?? ''),
        widths,
      ),
    )
    return [...own, ...under]
  })
  return `${[styleText('bold', joined(head, widths), { stream }), ...lines].join('\n')}\n`
}

/** The width of a table whose cells are not wrapped. */
export function tableWidth(head: readonly string[], rows: readonly (readonly string[])[]): number {
  const widths = columnWidths(
    head,
    rows.map(row => row.map(printable)),
  )
  return widths.reduce((sum, width) => sum + width, GAP * (widths.length - 1))
}

const columnWidths = (head: readonly string[], cells: readonly (readonly string[])[]) =>
  head.map((title, i) => Math.max(title.length, ...cells.map(row => row[i]?.length ?? 0)))

/** Narrows the widest columns until the table fits, but not the first, which names the row. */
function fitted(widths: readonly number[], available: number): number[] {
  const result = [...widths]
  const excess = () => result.reduce((sum, width) => sum + width, GAP * (result.length - 1)) - available
  while (excess() > 0) {
    const flexible = result.map((width, i) => (i === 0 || width <= MIN_COLUMN ? 0 : width))
    const widest = flexible.indexOf(Math.max(...flexible))
    if ((flexible[widest] ?? 0) === 0) break
    result[widest] = (result[widest] ?? 0) - 1
  }
  return result
}

/** Splits a cell into lines of the given width; a longer word is broken. */
function cut(cell: string, width: number): string[] {
  const lines: string[] = []
  for (let left = cell; ; ) {
    if (left.length <= width) return [...lines, left]
    const space = left.lastIndexOf(' ', width)
    const end = space > 0 ? space : width
    lines.push(left.slice(0, end))
    left = left.slice(end).trimStart()
  }
}

const joined = (row: readonly string[], widths: readonly number[]) =>
  row
    .map((cell, i) => cell.padEnd(widths[i] ?? 0))
    .join(' '.repeat(GAP))
    .trimEnd()
