// As an ordinary user the daemon runs inside a user namespace, where it is root over its own sub-ids and nothing else, and in a systemd scope of
// that user, where it may create cgroups.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isOutsideOwnCgroups } from '../../cgroups/delegation.ts'
import { launcherBeside } from '../../launcher/program.ts'
import { isInitialMap } from '../../machine/mapped-ids.ts'
import { isAlive } from '../../machine/process-state.ts'
import { readStateSync } from '../record.ts'
import { type Problem, subIdProblem } from './sub-ids.ts'

/**
 * The argv (a path first) that runs `argv` again inside a user namespace with the caller's sub-ids and a mount namespace of its own, from a
 * cgroup with delegated control where there is one. Null for root, which needs neither. If machines of this data folder run, it is the namespace
 * that they were started from: from another namespace they could be reached but not ended. Each step execs the next, so signals reach the
 * program itself.
 */
export function userNamespaceArgv(argv: readonly string[], dataDir: string, runner: string): string[] | null {
  const uid = process.getuid?.() ?? 0
  if (uid === 0) return null
  const machine = runningMachine(join(dataDir, 'sessions'))
  if (machine !== null) return userScopeArgv([launcherBeside(runner), 'enter', String(machine), ...argv], uid)
  const unshare = ['/usr/bin/unshare', '/bin/unshare'].find(path => existsSync(path)) ?? 'unshare'
  return userScopeArgv(
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

const SYSTEMD_RUN = '/usr/bin/systemd-run'
/** Falls back to running the program where it is; the probe then reports what is missing. */
const SCOPE_SCRIPT = `export XDG_RUNTIME_DIR="$1"; shift
scope='${SYSTEMD_RUN} --user --scope --quiet --collect'
$scope true 2>/dev/null && exec $scope -- "$@"
exec "$@"`

/** An ordinary user may create cgroups only below the user's own systemd. A login session, ssh included, is not there. */
function userScopeArgv(argv: string[], uid: number): string[] {
  if (!isOutsideOwnCgroups() || !existsSync(SYSTEMD_RUN) || !existsSync(`/run/user/${uid}/systemd/private`)) return argv
  return ['/bin/sh', '-c', SCOPE_SCRIPT, 'sh', `/run/user/${uid}`, ...argv]
}

/** True where systemd removes the groups below this cgroup when their user logs out for the last time. */
export function endsWithLogin(cgroup: string): boolean {
  const uid = cgroup.match(/\/user@(\d+)\.service$/)?.[1]
  if (uid === undefined) return false
  const user = readFileSync('/etc/passwd', 'utf8').match(new RegExp(`^([^:]+):[^:]*:${uid}:`, 'm'))?.[1]
  return user === undefined || !existsSync(`/var/lib/systemd/linger/${user}`)
}

/** Why an ordinary user cannot have such a namespace on this host, with the command that fixes it; null when nothing prevents it. */
export function userNamespaceProblem(): Problem | null {
  if (!['/usr/bin/newuidmap', '/bin/newuidmap', '/usr/local/bin/newuidmap'].some(path => existsSync(path)))
    return { why: 'newuidmap is not installed', fix: 'sudo apt-get install -y uidmap' }
  return (
    subIdProblem() ?? SYSCTLS.find(({ path, blocks }) => existsSync(path) && blocks(readFileSync(path, 'utf8').trim())) ?? null
  )
}

/** True in any user namespace except the initial one, which maps every id to itself. */
export function inUserNamespace(): boolean {
  return !isInitialMap(readFileSync('/proc/self/uid_map', 'utf8'))
}

const SYSCTLS = [
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
