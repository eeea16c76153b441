// Makes sure that Docker's programs are on this machine, without starting the service that their package brings.
import { access, rm, writeFile } from 'node:fs/promises'
import { run } from './command.ts'

const POLICY = '/usr/sbin/policy-rc.d'

/** Absolute paths of the programs; installs Debian's docker.io where dockerd is missing. */
export async function installDocker(
  say: (line: string) => void,
  signal: AbortSignal,
): Promise<{ docker: string; dockerd: string; containerd: string }> {
  if (!(await find('dockerd', signal))) {
    if (process.getuid?.() !== 0)
      throw new Error('dockerd is missing and installing it needs root: apt-get install docker.io, or pass --no-peer')
    if (!(await find('apt-get', signal)))
      throw new Error('dockerd is missing and so is apt-get: install Docker, or pass --no-peer')
    say('installing docker.io with apt-get, for the peer')
    await aptInstall(signal)
  }
  return {
    docker: await need('docker', signal),
    dockerd: await need('dockerd', signal),
    containerd: await need('containerd', signal),
  }
}

/** The package starts an engine for the whole machine unless policy-rc.d forbids it; ours is private, so it does. */
async function aptInstall(signal: AbortSignal): Promise<void> {
  const hadPolicy = await exists(POLICY)
  if (!hadPolicy) await writeFile(POLICY, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  try {
    await run(['apt-get', 'update', '-qq'], signal)
    await run(
      ['env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', 'install', '-y', '-qq', '--no-install-recommends', 'docker.io'],
      signal,
    )
  } finally {
    if (!hadPolicy) await rm(POLICY)
  }
}

/** The packaged program before one that was put in /usr/local: client and engine are then of one version. */
async function find(program: string, signal: AbortSignal): Promise<string | undefined> {
  for (const folder of ['/usr/bin', '/usr/sbin', '/usr/local/bin', '/usr/local/sbin']) {
    signal.throwIfAborted()
    if (await exists(`${folder}/${program}`)) return `${folder}/${program}`
  }
  return undefined
}

async function need(program: string, signal: AbortSignal): Promise<string> {
  const path = await find(program, signal)
  if (!path) throw new Error(`${program} is missing: apt-get install docker.io, or pass --no-peer`)
  return path
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
