// Runs programs in the guest.
import { execFile } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'

/** Where the programs are, as a clone would be. */
export const CLONE = '/opt/sandglass'
export const NODE = `${CLONE}/node_modules/.bin/node`
const USER = 'tester'

/** In front of an argv: as somebody who logged in. */
export const loggedIn = ['systemd-run', '--quiet', '--pipe', '--wait', '--collect', '--property=PAMName=login', `--uid=${USER}`]
/** In front of an argv: as that user, with the user's systemd within reach. */
export const asUser = ['runuser', '-u', USER, '--', 'env', 'XDG_RUNTIME_DIR=/run/user/1000', 'HOME=/srv/tester']

/** What it prints on stdout, trimmed. It fails with what it printed on stderr. */
export async function run(...argv: string[]): Promise<string> {
  const [program = '', ...args] = argv
  const { stdout } = await promisify(execFile)(program, args, { cwd: '/', maxBuffer: 16 * 1024 * 1024 })
  return stdout.trim()
}

export async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 60_000
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`not in time: ${what}`)
    await delay(100)
  }
}
