// How the daemon is run: its arguments and its memory settings.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { SandglassError, type WireError } from '@sandglass/contract/tables'

/** In MiB. With Node's default, a burst of requests doubles the memory of the daemon permanently, without making it faster. */
const YOUNG_GENERATION = '--max-semi-space-size=4'

/** argv of the daemon, run by the same Node as this process. */
export const daemonArgv = (...args: string[]): [string, ...string[]] => [
  process.execPath,
  YOUNG_GENERATION,
  fileURLToPath(import.meta.resolve('@sandglass/daemon/main')),
  ...args,
]

/** Runs the daemon's program for a command that prints a report and exits. It may print a report and exit with an error code. */
export async function runDaemonCommand(command: readonly string[], configPath: string | undefined): Promise<string> {
  const config = configPath === undefined ? [] : ['--config', configPath]
  const [program, ...args] = daemonArgv(...command, '--json', ...config)
  try {
    return (await promisify(execFile)(program, args, { maxBuffer: 16 * 1024 * 1024 })).stdout
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    if (stdout.trim() !== '') return stdout
    throw errorIn(stderr, error)
  }
}

/** With --json the daemon prints its error in the contract's form. */
function errorIn(stderr: string, cause: unknown): SandglassError {
  const line = stderr.split('\n').find(text => text.startsWith('{"error":'))
  if (line === undefined)
    return new SandglassError('INTERNAL', { message: stderr.trim() || 'the daemon ended without an error message' }, { cause })
  const { error }: { error: WireError } = JSON.parse(line)
  return SandglassError.fromWire(error)
}
