// The peer: a Docker engine of our own, beside any that the machine has and out of its sight.
// It lives in one temporary folder and in its own mount and process namespaces, so that killing one process ends containerd,
// dockerd, every shim and every container, and takes their mounts along. Nothing has to be unwound.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, open, readdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run, type Timed } from './command.ts'
import { installDocker } from './docker-install.ts'
import { IMAGE, makeRoot, runFlags } from './docker-root.ts'
import { until } from './until.ts'

const START_DEADLINE_MS = 30_000
const STOP_DEADLINE_MS = 15_000

export interface DockerEngine extends AsyncDisposable {
  readonly version: string
  /** The process whose descendants are the engine and its containers. */
  readonly pid: number
  /** Runs the docker command line against this engine. */
  docker(...args: string[]): Promise<Timed>
  /** A container of the shared root that does nothing; the options that follow the limits are docker's. */
  container(options: ContainerOptions, ...command: string[]): Promise<string>
  /** argv of `docker run` up to and including the image. */
  runArgs(options: ContainerOptions): string[]
}

export interface ContainerOptions {
  readonly cpuCores: number
  readonly readonly: boolean
  readonly flags?: readonly string[]
}

export async function startDockerEngine(say: (line: string) => void, signal: AbortSignal): Promise<DockerEngine> {
  if (process.getuid?.() !== 0) throw new Error('a private Docker engine needs root: run as root, or pass --no-peer')
  const programs = await installDocker(say, signal)
  const folder = await mkdtemp(join(tmpdir(), 'sg-peer-'))
  const cgroup = `sandglass-bench-${folder.slice(-6)}`
  const child = await launch(programs, folder, cgroup)
  const stop = () => stopEngine(child, folder, cgroup)
  try {
    const socket = join(folder, 'docker.sock')
    await until('the private Docker engine answers', START_DEADLINE_MS, signal, async () => {
      if (child.exitCode !== null) throw new Error('the private Docker engine ended')
      return ping(socket)
    })
    const argv = [programs.docker, '--config', join(folder, 'client'), '--host', `unix://${socket}`]
    const docker = (...args: string[]) => run([...argv, ...args], signal)
    const binds = await importRoot(argv, folder, signal)
    const runArgs = (options: ContainerOptions) => [...runFlags(binds, options), ...(options.flags ?? []), IMAGE]
    const version = (await docker('version', '--format', '{{.Server.Version}}')).stdout.trim()
    return {
      version,
      pid: child.pid ?? 0,
      docker,
      runArgs,
      container: async (options, ...command) => (await docker('run', '--detach', ...runArgs(options), ...command)).stdout.trim(),
      [Symbol.asyncDispose]: stop,
    }
  } catch (error) {
    const log = await readFile(join(folder, 'engine.log'), 'utf8').catch(() => '')
    await stop()
    if (signal.aborted) throw error
    throw new Error(`cannot start a private Docker engine; its log ends:\n${log.trim().split('\n').slice(-12).join('\n')}`, {
      cause: error,
    })
  }
}

async function launch(programs: { dockerd: string; containerd: string }, folder: string, cgroup: string): Promise<ChildProcess> {
  await mkdir(join(folder, 'client'))
  await writeFile(join(folder, 'daemon.json'), '{}')
  await writeFile(join(folder, 'containerd.toml'), containerdConfig(folder))
  const dockerd = [
    ...[programs.dockerd, '--config-file', join(folder, 'daemon.json'), '--containerd', join(folder, 'containerd.sock')],
    ...['--host', `unix://${join(folder, 'docker.sock')}`, '--pidfile', join(folder, 'docker.pid')],
    ...['--data-root', join(folder, 'data'), '--exec-root', join(folder, 'exec'), '--storage-driver', 'overlay2'],
    ...['--bridge', 'none', '--iptables=false', '--ip6tables=false', '--ip-forward=false', '--ip-masq=false'],
    ...['--exec-opt', 'native.cgroupdriver=cgroupfs', '--cgroup-parent', `/${cgroup}`],
  ]
  // The shell is process 1 of the namespace and reaps the shims that containerd leaves to it.
  const script = '"$0" --config "$1" & shift; "$@" & wait'
  const log = await open(join(folder, 'engine.log'), 'w')
  try {
    const argv = ['--pdeathsig', 'KILL', 'unshare', '--mount', '--pid', '--fork', '--mount-proc', '--kill-child', '--']
    // Its own process group: Ctrl-C reaches this program alone, which then stops the engine.
    return spawn('setpriv', [...argv, 'sh', '-c', script, programs.containerd, join(folder, 'containerd.toml'), ...dockerd], {
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    })
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

async function importRoot(argv: readonly string[], folder: string, signal: AbortSignal): Promise<string[]> {
  const root = join(folder, 'root')
  await mkdir(root)
  const binds = await makeRoot(root)
  await run(
    ['tar', '--create', '--owner', '0', '--group', '0', '--file', join(folder, 'root.tar'), '--directory', root, '.'],
    signal,
  )
  await run([...argv, 'import', join(folder, 'root.tar'), IMAGE], signal)
  return binds
}

async function stopEngine(child: ChildProcess, folder: string, cgroup: string): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
  await until('the private engine is gone', STOP_DEADLINE_MS, undefined, () => removeCgroups(cgroup))
  await rm(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 })
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
  const entries = await readdir(path, { withFileTypes: true }).catch(() => undefined)
  if (!entries) return true
  for (const entry of entries) if (entry.isDirectory()) await removeTree(join(path, entry.name))
  return rmdir(path).then(
    () => true,
    () => false,
  )
}
