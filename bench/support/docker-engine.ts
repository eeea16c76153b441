// A Docker engine of our own, beside any that the machine has and out of its sight.
// It lives in one temporary folder and in its own mount and process namespaces, so that killing one process ends containerd,
// dockerd, every shim and every container, and takes their mounts along. Nothing has to be unwound.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, open, readdir, readFile, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run, type Timed } from './command.ts'
import { installDocker } from './docker-install.ts'
import { until } from './until.ts'

const START_DEADLINE_MS = 30_000
const STOP_DEADLINE_MS = 15_000

export interface DockerEngine extends AsyncDisposable {
  readonly version: string
  readonly socket: string
  /** Its folder, which goes with it. */
  readonly folder: string
  /** The process whose descendants are the engine and its containers. */
  readonly pid: number
  /** Runs the docker command line against this engine. */
  docker(...args: string[]): Promise<Timed>
}

export interface EngineOptions {
  readonly say: (line: string) => void
  readonly signal: AbortSignal
  /** Further arguments of dockerd. */
  readonly flags?: readonly string[]
  /** False leaves its containers among the processes of this machine, as a usual engine's are. */
  readonly ownProcesses?: boolean
}

export async function startDockerEngine({ say, signal, flags = [], ownProcesses = true }: EngineOptions): Promise<DockerEngine> {
  if (process.getuid?.() !== 0) throw new Error('a private Docker engine needs root: run as root, or pass --no-peer')
  const programs = await installDocker(say, signal)
  const folder = await mkdtemp(join(tmpdir(), 'sg-peer-'))
  const cgroup = `sandglass-bench-${folder.slice(-6)}`
  const child = await launch(programs, folder, cgroup, flags, ownProcesses)
  const stop = () => stopEngine(child, folder, cgroup)
  try {
    const socket = join(folder, 'docker.sock')
    await until('the private Docker engine answers', START_DEADLINE_MS, signal, async () => {
      if (child.exitCode !== null) throw new Error('the private Docker engine ended')
      return ping(socket)
    })
    const argv = [programs.docker, '--config', join(folder, 'client'), '--host', `unix://${socket}`]
    const docker = (...args: string[]) => run([...argv, ...args], signal)
    const version = (await docker('version', '--format', '{{.Server.Version}}')).stdout.trim()
    return { version, socket, folder, pid: child.pid ?? 0, docker, [Symbol.asyncDispose]: stop }
  } catch (error) {
    const log = await readFile(join(folder, 'engine.log'), 'utf8').catch(() => '')
    await stop()
    if (signal.aborted) throw error
    throw new Error(`cannot start a private Docker engine; its log ends:\n${log.trim().split('\n').slice(-12).join('\n')}`, {
      cause: error,
    })
  }
}

async function launch(
  programs: { dockerd: string; containerd: string },
  folder: string,
  cgroup: string,
  flags: readonly string[],
  ownProcesses: boolean,
): Promise<ChildProcess> {
  await mkdir(join(folder, 'client'))
  await writeFile(join(folder, 'daemon.json'), '{}')
  await writeFile(join(folder, 'containerd.toml'), containerdConfig(folder))
  const dockerd = [
    ...[programs.dockerd, '--config-file', join(folder, 'daemon.json'), '--containerd', join(folder, 'containerd.sock')],
    ...['--host', `unix://${join(folder, 'docker.sock')}`, '--pidfile', join(folder, 'docker.pid')],
    ...['--data-root', join(folder, 'data'), '--exec-root', join(folder, 'exec'), '--storage-driver', 'overlay2'],
    ...['--bridge', 'none', '--iptables=false', '--ip6tables=false', '--ip-forward=false', '--ip-masq=false'],
    ...['--exec-opt', 'native.cgroupdriver=cgroupfs', '--cgroup-parent', `/${cgroup}`],
    ...flags,
  ]
  // The shell is process 1 of the namespace and reaps the shims that containerd leaves to it.
  const enter = 'for tree in /sys/fs/cgroup /sys/fs/cgroup/pids; do echo $$ > "$tree/$0/engine/cgroup.procs"; done 2>/dev/null'
  // An engine that is killed comes back, as a service does.
  const script = `${enter}; "$1" --config "$2" & shift 2; (while :; do "$@"; done) & wait`
  const log = await open(join(folder, 'engine.log'), 'w')
  try {
    await makeGroup(cgroup)
    const own = ownProcesses ? ['--pid', '--fork', '--mount-proc', '--kill-child'] : []
    const argv = ['--pdeathsig', 'KILL', 'unshare', '--mount', ...own, '--']
    // Its own process group: Ctrl-C reaches this program alone, which then stops the engine.
    return spawn(
      'setpriv',
      [...argv, 'sh', '-c', script, cgroup, programs.containerd, join(folder, 'containerd.toml'), ...dockerd],
      {
        detached: true,
        stdio: ['ignore', log.fd, log.fd],
      },
    )
  } finally {
    await log.close()
  }
}

function containerdConfig(folder: string): string {
  return [
    'version = 2',
    `root = ${JSON.stringify(join(folder, 'containerd'))}`,
    `state = ${JSON.stringify(join(folder, 'containerd-state'))}`,
    'disabled_plugins = ["io.containerd.grpc.v1.cri"]',
    '[grpc]',
    `address = ${JSON.stringify(join(folder, 'containerd.sock'))}`,
    '',
  ].join('\n')
}

function ping(socketPath: string): Promise<boolean> {
  return new Promise(resolve => {
    const asked = request({ socketPath, path: '/_ping' }, reply => {
      reply.resume()
      resolve(reply.statusCode === 200)
    })
    asked.on('error', () => resolve(false))
    asked.end()
  })
}

async function stopEngine(child: ChildProcess, folder: string, cgroup: string): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
  // With processes of its own the kernel has ended them all; else those in its cgroup are what is left.
  await until('the private engine is gone', STOP_DEADLINE_MS, undefined, async () => {
    await killGroup(cgroup)
    return await removeCgroups(cgroup)
  })
  await rm(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 })
}

/** The hierarchies in which every process has a place of its own: v2, and pids of v1. */
const TREES = ['/sys/fs/cgroup', '/sys/fs/cgroup/pids']

async function makeGroup(cgroup: string): Promise<void> {
  for (const tree of TREES)
    if (await isFile(join(tree, 'cgroup.procs'))) await mkdir(join(tree, cgroup, 'engine'), { recursive: true })
}

async function killGroup(cgroup: string): Promise<void> {
  for (const tree of TREES) {
    for (const path of await readdir(join(tree, cgroup), { recursive: true }).catch(() => [])) {
      if (!path.endsWith('cgroup.procs')) continue
      const pids = await readFile(join(tree, cgroup, path), 'utf8').catch(() => '')
      for (const pid of pids.split('\n').filter(Boolean)) kill(Number(pid))
    }
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    info => info.isFile(),
    () => false,
  )
}

/** Removes the engine's cgroup from every hierarchy; false while a process still dies in one. */
async function removeCgroups(cgroup: string): Promise<boolean> {
  const top = '/sys/fs/cgroup'
  const hierarchies = [
    top,
    ...(await readdir(top, { withFileTypes: true })).filter(entry => entry.isDirectory()).map(entry => join(top, entry.name)),
  ]
  const removed = await Promise.all(hierarchies.map(hierarchy => removeTree(join(hierarchy, cgroup))))
  return removed.every(Boolean)
}

async function removeTree(path: string): Promise<boolean> {
  if (!existsSync(path)) return true
  for (const entry of await readdir(path, { withFileTypes: true }))
    if (entry.isDirectory()) await removeTree(join(path, entry.name))
  return rmdir(path).then(
    () => true,
    () => false,
  )
}
