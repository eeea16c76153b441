// What a person does with the daemon, as different users and under systemd.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { attempt } from './report.ts'
import { asUser, CLONE, loggedIn, run, until } from './run.ts'

type Way = {
  systemctl: readonly string[]
  cli: readonly string[]
  /** The cgroup that sessions are below. */
  base: string
}

const SYSTEM: Way = {
  systemctl: ['systemctl'],
  cli: ['env', 'SANDGLASS_DATA_DIR=/var/lib/sandglass', `${CLONE}/sandglass`],
  base: '/sys/fs/cgroup',
}
const OWN: Way = {
  systemctl: [...asUser, 'systemctl', '--user'],
  cli: [...asUser, `${CLONE}/sandglass`],
  base: '/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service',
}

export async function systemSteps(suite: string): Promise<void> {
  const unit = '/etc/systemd/system/sandglass.service'
  await run('cp', `${CLONE}/packaging/sandglass.service`, unit)
  await attempt(suite, 'systemd finds nothing wrong with the unit', async () =>
    same(await run('systemd-analyze', 'verify', unit), ''),
  )
  await run('install', '-d', '-m', '700', '/etc/sandglass')
  await run('install', '-m', '600', '/dev/null', '/etc/sandglass/config.yaml')
  await serviceSteps(suite, SYSTEM)
}

export async function ownSteps(suite: string): Promise<void> {
  await run('loginctl', 'enable-linger', 'tester')
  const folder = '/srv/tester/.config/systemd/user'
  await run(...asUser, 'mkdir', '-p', folder)
  await run(...asUser, 'ln', '-sfn', CLONE, '/srv/tester/sandglass')
  await run(...asUser, 'cp', `${CLONE}/packaging/user/sandglass.service`, folder)
  await until('the systemd of the user runs', async () => readdirSync('/run/user').includes('1000'))
  await attempt(suite, 'systemd finds nothing wrong with the unit', async () =>
    same(await run(...asUser, 'systemd-analyze', '--user', 'verify', `${folder}/sandglass.service`), ''),
  )
  await serviceSteps(suite, OWN)
}

async function serviceSteps(suite: string, way: Way): Promise<void> {
  const { systemctl, cli } = way
  await run(...systemctl, 'daemon-reload')
  await attempt(suite, 'start returns when the daemon answers', async () => {
    await run(...systemctl, 'start', 'sandglass')
    same(JSON.parse(await run(...cli, 'ls', '--json')).items?.length ?? 0, 0)
  })
  await attempt(suite, 'a session has its limits', async () => {
    await run(...cli, 'new', 'demo', '--memory-mb', '300', '--pids-limit', '77', '--cpu-cores', '0.5')
    const [group = ''] = sessionGroups(way)
    same(read(group, 'memory.max'), String(300 * 1024 * 1024))
    same(read(group, 'memory.swap.max'), '0')
    same(read(group, 'cpu.max'), '50000 100000')
    same(Number(read(group, 'pids.max')) >= 77, true)
  })
  await attempt(suite, 'a shell and its jobs outlive a restart of the service', async () => {
    await run(...cli, 'exec', 'demo', '-c', 'cd /tmp && export KEPT=yes && (sleep 1000 &)')
    await run(...systemctl, 'restart', 'sandglass')
    same(await run(...cli, 'exec', 'demo', '-c', 'echo $PWD $KEPT $(pgrep -c sleep)'), '/tmp yes 1')
  })
  await attempt(suite, 'a daemon that is killed is started again and finds the session', async () => {
    const before = await run(...systemctl, 'show', 'sandglass', '--property=MainPID', '--value')
    await run('kill', '-9', before)
    await until('another daemon runs', async () => {
      const [pid, state] = (await run(...systemctl, 'show', 'sandglass', '--property=MainPID,ActiveState', '--value')).split('\n')
      return pid !== before && state === 'active'
    })
    same(await run(...cli, 'exec', 'demo', '-c', 'echo $PWD $KEPT'), '/tmp yes')
  })
  await attempt(suite, 'a stop leaves the session running, and nothing of the daemon', async () => {
    await run(...systemctl, 'stop', 'sandglass')
    same(await run(...systemctl, 'show', 'sandglass', '--property=Result', '--value'), 'success')
    same(sessionGroups(way).length, 1)
    await run(...systemctl, 'start', 'sandglass')
    same(await run(...cli, 'exec', 'demo', '-c', 'echo $PWD'), '/tmp')
  })
  await attempt(suite, 'the end of the session and of the service leaves no cgroup', async () => {
    await run(...cli, 'rm', '-f', 'demo')
    await run(...systemctl, 'stop', 'sandglass')
    await until('no cgroup is left', async () => parents(way).length === 0)
  })
}

/** Nobody told the daemon where to run: it is started by the command line, in a session that has no cgroups of its own. */
export async function loginSteps(suite: string): Promise<void> {
  const cli = [...loggedIn, `${CLONE}/sandglass`]
  await attempt(suite, 'doctor finds that sessions can be created', async () => {
    same((await run(...cli, 'doctor')).includes('sessions can be created'), true)
  })
  await attempt(suite, 'a session has its limits', async () => {
    await run(...loggedIn, 'sh', '-c', `${CLONE}/sandglass new demo --memory-mb 300`)
    const [group = ''] = sessionGroups(OWN)
    same(read(group, 'memory.max'), String(300 * 1024 * 1024))
  })
  await attempt(suite, 'rm and shutdown leave no cgroup', async () => {
    await run(...cli, 'rm', '-f', 'demo')
    await run(...cli, 'shutdown')
    await until('no cgroup is left', async () => parents(OWN).length === 0)
  })
}

/** Groups with a limit: a launcher that waits for a start is in one, too, but has none yet. */
function sessionGroups(way: Way): string[] {
  return parents(way)
    .flatMap(folders)
    .filter(group => read(group, 'memory.max') !== 'max')
}

function parents({ base }: Way): string[] {
  return folders(base).filter(path => /\/sandglass-[0-9a-f]{8}$/.test(path))
}

/** None where the user's own systemd has gone with its last login. */
function folders(dir: string): string[] {
  if (!existsSync(dir)) return []
  return readdirSync(dir, { withFileTypes: true })
    .filter(entry => entry.isDirectory())
    .map(({ name }) => join(dir, name))
}

function read(group: string, file: string): string {
  return readFileSync(join(group, file), 'utf8').trim()
}

function same(got: unknown, wanted: unknown): void {
  if (got !== wanted) throw new Error(`got ${JSON.stringify(got)}, and not ${JSON.stringify(wanted)}`)
}
