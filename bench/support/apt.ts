// Programs that a benchmark compares with or needs, from Debian's packages. A package that brings a service does not start it.
import { access, rm, writeFile } from 'node:fs/promises'
import { run } from './command.ts'

const POLICY = '/usr/sbin/policy-rc.d'
const FOLDERS = ['/usr/bin', '/usr/sbin', '/usr/local/bin', '/usr/local/sbin']

/** Absolute paths of the programs, by name; `packages` has them. The packaged ones come before those in /usr/local. */
export async function installed<Name extends string>(
  programs: readonly Name[],
  packages: readonly string[],
  say: (line: string) => void,
  signal: AbortSignal,
): Promise<Record<Name, string>> {
  const install = packages.join(' ')
  if ((await Promise.all(programs.map(find))).includes(undefined)) {
    const missing = `${programs.join(', ')} are needed, and not all are here`
    if (process.getuid?.() !== 0) throw new Error(`${missing}; installing them needs root: apt-get install ${install}`)
    if (!(await find('apt-get'))) throw new Error(`${missing}, nor is apt-get: install ${install}`)
    say(`installing ${install} with apt-get`)
    await aptInstall(packages, signal)
  }
  const found = await Promise.all(
    programs.map(async name => {
      const path = await find(name)
      if (path === undefined) throw new Error(`${name} is missing: apt-get install ${install}`)
      return [name, path] as const
    }),
  )
  return Object.fromEntries(found) as Record<Name, string>
}

/** A package starts its service unless policy-rc.d forbids it. */
async function aptInstall(packages: readonly string[], signal: AbortSignal): Promise<void> {
  const hadPolicy = await exists(POLICY)
  if (!hadPolicy) await writeFile(POLICY, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  try {
    const apt = ['env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', '-qq']
    await run([...apt, 'update'], signal)
    await run([...apt, 'install', '-y', '--no-install-recommends', ...packages], signal)
  } finally {
    if (!hadPolicy) await rm(POLICY)
  }
}

async function find(program: string): Promise<string | undefined> {
  for (const folder of FOLDERS) if (await exists(`${folder}/${program}`)) return `${folder}/${program}`
  return undefined
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
