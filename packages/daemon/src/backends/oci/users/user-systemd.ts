// An ordinary user may make cgroups below the user's own systemd and nowhere else. A login session, ssh included, is not there.
import { existsSync, readFileSync } from 'node:fs'
import { isOutsideOwnCgroups } from '../../cgroups/delegation.ts'

const SYSTEMD_RUN = '/usr/bin/systemd-run'
/** Where that cannot be, for whatever reason, the program runs where it is, and the probe tells what is missing. */
const SCRIPT = `export XDG_RUNTIME_DIR="$1"; shift
scope='${SYSTEMD_RUN} --user --scope --quiet --collect'
$scope true 2>/dev/null && exec $scope -- "$@"
exec "$@"`

/** The argv (a path first) that runs `argv` in a scope of the user's systemd, if that is there and needed. Each step becomes the next. */
export function userSystemdArgv(argv: string[], uid: number): string[] {
  if (!isOutsideOwnCgroups() || !existsSync(SYSTEMD_RUN) || !hasUserSystemd(uid)) return argv
  return ['/bin/sh', '-c', SCRIPT, 'sh', `/run/user/${uid}`, ...argv]
}

function hasUserSystemd(uid: number): boolean {
  return existsSync(`/run/user/${uid}/systemd/private`)
}

/** True where groups below this cgroup end when their user logs out for the last time. */
export function endsWithLogin(cgroup: string): boolean {
  const uid = cgroup.match(/\/user@(\d+)\.service$/)?.[1]
  if (uid === undefined) return false
  const user = readFileSync('/etc/passwd', 'utf8').match(new RegExp(`^([^:]+):[^:]*:${uid}:`, 'm'))?.[1]
  return user === undefined || !existsSync(`/var/lib/systemd/linger/${user}`)
}
