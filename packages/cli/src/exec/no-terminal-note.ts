import { posix } from 'node:path'
import type { Context } from '../command.ts'

/** Programs that without arguments talk with a person. */
const INTERACTIVE = /^(ba|da|z|fi|a)?sh$|^python[\d.]*$|^i?python$|^(node|bun|deno|irb|ghci|lua|psql|sqlite3|php|R|julia)$/

/** Says why a shell or an interpreter that was started from a terminal ends at once: its stdin is empty without -t. */
export function noteNoTerminal(argv: readonly string[], { say }: Context): void {
  const [program = '', ...more] = argv
  if (more.length > 0 || !process.stdin.isTTY || !INTERACTIVE.test(posix.basename(program))) return
  say(`note: stdin of ${posix.basename(program)} is empty; use -t for a terminal\n`)
}
