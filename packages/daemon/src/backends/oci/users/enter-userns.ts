// As an ordinary user the daemon runs inside a user namespace, where it is root over its own sub-ids and nothing else.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isAlive } from '../../machine/process-state.ts'
import { readStateSync } from '../record.ts'
import { type Problem, subIdProblem } from './sub-ids.ts'
import { userSystemdArgv } from './user-systemd.ts'

/**
 * The argv (a path first) that runs `argv` again inside a user namespace with the caller's sub-ids and a mount namespace of its own; null for root,
 * who needs none, and from where cgroups can be made if that is anywhere. It is the namespace that running machines of this data folder were made from, if there are any: from another one they
 * could be talked to but not ended. Signals reach the program itself: each step becomes the next.
 */
export function userNamespaceArgv(argv: readonly string[], dataDir: string, runner: string): string[] | null {
  const uid = process.getuid?.() ?? 0
  if (uid === 0) return null
  const machine = runningMachine(join(dataDir, 'sessions'))
  if (machine !== null) return userSystemdArgv([runner, 'launch', 'enter', String(machine), ...argv], uid)
  const unshare = ['/usr/bin/unshare', '/bin/unshare'].find(path => existsSync(path)) ?? 'unshare'
  return userSystemdArgv(
    [unshare, '--user', '--map-root-user', '--map-auto', '--mount', '--propagation', 'slave', '--', ...argv],
    uid,
  )
}

function runningMachine(sessions: string): number | null {
  if (!existsSync(sessions)) return null
  for (const id of readdirSync(sessions)) {
    const state = readStateSync(join(sessions, id))
    if (state !== null && isAlive(state)) return state.pid
  }
  return null
}

/** Why an ordinary user cannot have such a namespace here, and the command that mends it; null when nothing is in the way. */
export function userNamespaceProblem(): Problem | null {
  if (!['/usr/bin/newuidmap', '/bin/newuidmap', '/usr/local/bin/newuidmap'].some(path => existsSync(path)))
    return { why: 'newuidmap is not installed', fix: 'sudo apt-get install -y uidmap' }
  return subIdProblem() ?? KNOBS.find(({ path, blocks }) => existsSync(path) && blocks(readFileSync(path, 'utf8').trim())) ?? null
}

/** True in any user namespace but the first: ids are mapped there. */
export function inUserNamespace(): boolean {
  return !/^\s*0\s+0\s+4294967295\s*$/.test(readFileSync('/proc/self/uid_map', 'utf8'))
}

const KNOBS = [
  {
    path: '/proc/sys/user/max_user_namespaces',
    blocks: (value: string) => value === '0',
    why: 'user namespaces are switched off',
    fix: 'sudo sysctl -w user.max_user_namespaces=65536',
  },
  {
    path: '/proc/sys/kernel/unprivileged_userns_clone',
    blocks: (value: string) => value === '0',
    why: 'user namespaces are reserved for root',
    fix: 'sudo sysctl -w kernel.unprivileged_userns_clone=1',
  },
  {
    path: '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
    blocks: (value: string) => value === '1',
    why: 'AppArmor restricts user namespaces',
    fix: 'sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0',
  },
]
