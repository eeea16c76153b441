// The peer: a private Docker engine with the root filesystem and the limits of a session of the `host` image.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from './command.ts'
import { type DockerEngine, startDockerEngine } from './docker-engine.ts'
import { IMAGE, makeRoot, runFlags } from './docker-root.ts'

export interface DockerPeer extends DockerEngine {
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

export async function startDockerPeer(say: (line: string) => void, signal: AbortSignal): Promise<DockerPeer> {
  // Its containers are among this machine's processes, as a usual engine's are: our own docker backend may use it too.
  const engine = await startDockerEngine({ say, signal, ownProcesses: false })
  try {
    const binds = await importRoot(engine, signal)
    const runArgs = (options: ContainerOptions) => [...runFlags(binds, options), ...(options.flags ?? []), IMAGE]
    return {
      ...engine,
      runArgs,
      container: async (options, ...command) =>
        (await engine.docker('run', '--detach', ...runArgs(options), ...command)).stdout.trim(),
    }
  } catch (error) {
    await engine[Symbol.asyncDispose]()
    throw error
  }
}

async function importRoot({ docker, folder }: DockerEngine, signal: AbortSignal): Promise<string[]> {
  const root = join(folder, 'root')
  await mkdir(root)
  const binds = await makeRoot(root)
  await run(
    ['tar', '--create', '--owner', '0', '--group', '0', '--file', join(folder, 'root.tar'), '--directory', root, '.'],
    signal,
  )
  await docker('import', join(folder, 'root.tar'), IMAGE)
  return binds
}
