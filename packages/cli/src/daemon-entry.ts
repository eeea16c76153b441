import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { SandglassError } from '@sandglass/contract/tables'

/** argv of the daemon, run by this same Node. */
export const daemonArgv = (...args: string[]): [string, ...string[]] => [
  process.execPath,
  fileURLToPath(import.meta.resolve('@sandglass/daemon/main')),
  ...args,
]

/** What the daemon's program prints for a question that it answers without running. A report may come with an exit code of its own. */
export async function askDaemon(question: readonly string[], configPath: string | undefined): Promise<string> {
  const [program, ...args] = daemonArgv(...question, ...(configPath === undefined ? [] : ['--config', configPath]))
  try {
    return (await promisify(execFile)(program, args, { maxBuffer: 16 * 1024 * 1024 })).stdout
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    if (stdout.trim() !== '') return stdout
    throw refusal(stderr, error)
  }
}

/** The daemon says what is wrong in our own form: `sandglass: message`. */
function refusal(stderr: string, cause: unknown): SandglassError {
  const said = stderr
    .split('\n')
    .find(line => line.startsWith('sandglass: '))
    ?.slice('sandglass: '.length)
  if (said === undefined)
    return new SandglassError('INTERNAL', { message: stderr.trim() || 'the daemon ended without a word' }, { cause })
  return new SandglassError('CONFIG_INVALID', { source: '', issue: '' }, { cause, message: said })
}
