// What a machine said last, as its boot log has it.
import { readFile } from 'node:fs/promises'
import { isMissing } from '../../../lib/missing-file.ts'

const LAST_LINES = 3
const LINE_LENGTH = 200
/** Lines that tell why: a panic is followed by many that do not. */
const TELLING = /Kernel panic|Out of memory|sandglass:|QEMU|qemu-system/

/** The end of a boot log as one line. */
export async function lastWords(path: string): Promise<string> {
  try {
    const lines = (await readFile(path, 'latin1'))
      .split('\n')
      .map(printable)
      .filter(line => line !== '')
    const telling = lines.filter(line => TELLING.test(line))
    return (telling.length > 0 ? telling : lines).slice(-LAST_LINES).join(' | ')
  } catch (error) {
    if (isMissing(error)) return 'nothing'
    throw error
  }
}

// SECURITY: a machine prints what it likes, and this is shown on terminals.
function printable(line: string): string {
  return line
    .replaceAll(/[^\x20-\x7e]/g, '')
    .slice(0, LINE_LENGTH)
    .trim()
}
