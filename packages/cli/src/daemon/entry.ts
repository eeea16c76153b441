import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { SandglassError, type WireError } from '@sandglass/contract/tables'

/** MiB. With Node's own choice a burst of requests leaves the daemon twice as large for good; it is no faster for it. */
const YOUNG_GENERATION = '--max-semi-space-size=4'

/** argv of the daemon, run by this same Node. */
export const daemonArgv = (...args: string[]): [string, ...string[]] => [
  process.execPath,
  YOUNG_GENERATION,
  fileURLToPath(import.meta.resolve('@sandglass/daemon/main')),
  ...args,
]

/** What the daemon's program prints for a question that it answers without running. A report may come with an exit code of its own. */
export async function askDaemon(question: readonly string[], configPath: string | undefined): Promise<string> {
  const config = configPath === undefined ? [] : ['--config', configPath]
  const [program, ...args] = daemonArgv(...question, '--json', ...config)
  try {
    return (await promisify(execFile)(program, args, { maxBuffer: 16 * 1024 * 1024 })).stdout
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    if (stdout.trim() !== '') return stdout
    throw refusal(stderr, error)
  }
}

/** With --json the daemon says what is wrong in the contract's form. */
function refusal(stderr: string, cause: unknown): SandglassError {
  const said = stderr.split('\n').find(line => line.startsWith('{"error":'))
  if (said === undefined)
    return new SandglassError('INTERNAL', { message: stderr.trim() || 'the daemon ended without a word' }, { cause })
  const { error }: { error: WireError } = JSON.parse(said)
  return SandglassError.fromWire(error)
}
