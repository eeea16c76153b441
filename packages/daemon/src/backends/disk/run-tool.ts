// Runs a program of the host that makes a file, and says what it said.
import { execFile } from 'node:child_process'
import { basename } from 'node:path'
import { promisify } from 'node:util'
import { SandglassError } from '@sandglass/contract/tables'

export async function runTool(program: string, args: readonly string[]): Promise<void> {
  try {
    await promisify(execFile)(program, args, { env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' } })
  } catch (error) {
    if (!(error instanceof Error)) throw error
    const said = String((error as { stderr?: unknown }).stderr ?? '').trim()
    if (said.includes('No space left on device'))
      throw new SandglassError('HOST_FULL', { what: 'the disk of its data folder is full' }, { cause: error })
    throw new Error(`${basename(program)} failed: ${said.split('\n').at(-1) || error.message}`, { cause: error })
  }
}
