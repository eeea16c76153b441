// Starts the daemon by running a command of the command line, which reads the configuration, finds its Node, waits until the daemon listens, and
// reports what is wrong if it does not.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { SandglassError } from '@sandglass/contract/tables'
import { wireError } from '../transport/errors.ts'

type Wanted = {
  /** Undefined for the default of the command line. */
  dataDir: string | undefined
  socketPath: string
  env: Readonly<Record<string, string | undefined>>
}

/** Every command starts the daemon if needed; this one changes nothing else. */
const COMMAND = ['ls', '--json']
/** The version of Node that the command line needs. */
const NODE_MAJOR = 24
const MAX_STDERR = 64 * 1024

export async function startDaemon({ dataDir, socketPath, env }: Wanted): Promise<void> {
  const [program, ...args] = commandLine()
  // These variables name another daemon for the command line than connectLocal wants.
  const { SANDGLASS_URL: _, SANDGLASS_SOCKET: __, ...rest } = env
  const child = spawn(program, [...args, ...COMMAND], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: dataDir === undefined ? rest : { ...rest, SANDGLASS_DATA_DIR: dataDir },
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', text => {
    said = (said + text).slice(-MAX_STDERR)
  })
  const [code]: unknown[] = await once(child, 'close').catch(error => {
    throw notStarted(socketPath, error)
  })
  if (code !== 0) throw refusal(socketPath, said)
}

/** Prefers the command line that is installed beside the SDK, which has the same version. Where this Node is too old, `sandglass` in PATH finds its own. */
function commandLine(): [string, ...string[]] {
  const [major] = process.versions.node.split('.')
  const beside = Number(major) >= NODE_MAJOR ? besideThis() : undefined
  return beside === undefined ? ['sandglass'] : [process.execPath, beside]
}

function besideThis(): string | undefined {
  try {
    return createRequire(import.meta.url).resolve('@sandglass/cli/bin/sandglass.mjs')
  } catch {
    return undefined // not installed, or the SDK is in a bundle
  }
}

function notStarted(address: string, cause: NodeJS.ErrnoException): SandglassError {
  if (cause.code !== 'ENOENT')
    return new SandglassError(
      'DAEMON_UNREACHABLE',
      { address, why: `\`sandglass\` could not be run to start it: ${cause.message}` },
      { cause },
    )
  const why = 'no daemon runs, and there is no `sandglass` command to start one'
  const next = 'install @sandglass/cli beside @sandglass/sdk (it needs Node 24), or put `sandglass` into PATH'
  return new SandglassError('DAEMON_UNREACHABLE', { address, why, next }, { cause })
}

/** With --json the last line of stderr is the error; the message of a Node that is too old is plain text. */
function refusal(address: string, said: string): SandglassError {
  const lines = said.split('\n').filter(line => line.trim() !== '')
  const wire = wireError(lines.at(-1) ?? '')
  if (wire) return SandglassError.fromWire(wire)
  const next = lines.find(line => line.startsWith(NEXT))?.slice(NEXT.length)
  const why = lines.find(line => line.startsWith(OWN))?.slice(OWN.length) ?? lines.at(-1) ?? 'it ended without a message'
  return new SandglassError('DAEMON_UNREACHABLE', { address, why: `\`sandglass\` did not start it: ${why}`, next })
}

const OWN = 'sandglass: '
const NEXT = '  next: '
