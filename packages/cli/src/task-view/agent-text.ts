// Text of an agent, made safe to print. SECURITY: the agent and whoever wrote what it reads choose this text. Escape sequences are removed,
// and what is left of control characters, or would reorder or hide text, is shown as an escape.
import { stripVTControlCharacters } from 'node:util'
import { printable, printableLines } from '../output/printable.ts'

/** Several lines; tabs are kept. */
export const safeLines = (text: string): string => printableLines(withoutSequences(text))

/** One line: line breaks and runs of spaces become one space. */
export const safeLine = (text: string): string =>
  printable(withoutSequences(text.slice(0, MAX_LINE)).replaceAll(/\s+/g, ' ').trim())

/** Longer than any terminal is wide; a tool may give back megabytes. */
const MAX_LINE = 4000

const withoutSequences = (text: string) => stripVTControlCharacters(text).replaceAll('\r\n', '\n')

/** Cuts a line to `columns` cells of a terminal; … stands for what is left out. */
export function cutTo(columns: number, line: string): string {
  let cells = 0
  let fitting = ''
  for (const char of line) {
    cells += cellsOf(char)
    if (cells > columns) return `${fitting}…`
    if (cells < columns) fitting += char
  }
  return line
}

/** Wide characters of East Asian scripts and emoji take two cells; marks that combine with the character before them take none. */
function cellsOf(char: string): number {
  const code = char.codePointAt(0) ?? 0
  if (code < 0x300) return 1
  if (/\p{M}/u.test(char)) return 0
  const isWide =
    (code >= 0x1100 && code <= 0x115f) ||
    (code >= 0x2e80 && code <= 0xa4cf) ||
    (code >= 0xac00 && code <= 0xd7a3) ||
    (code >= 0xf900 && code <= 0xfaff) ||
    (code >= 0xfe30 && code <= 0xfe6f) ||
    (code >= 0xff00 && code <= 0xff60) ||
    (code >= 0xffe0 && code <= 0xffe6) ||
    (code >= 0x1f300 && code <= 0x1faff) ||
    (code >= 0x20000 && code <= 0x3fffd)
  return isWide ? 2 : 1
}
