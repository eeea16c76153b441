// The root filesystem and the limits of the peer's containers: what a session of the `host` image has.
import { existsSync, lstatSync } from 'node:fs'
import { cp, mkdir, readlink, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { LIMITS } from '@sandglass/contract/tables'

export const IMAGE = 'sandglass-bench'

/** Top-level names that are links into /usr on a merged system and folders of their own elsewhere. */
const SYSTEM = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32']

/**
 * Fills an empty folder with a small synthetic root and returns the binds that complete it: the host's /usr, read-only.
 * Importing /usr whole would copy gigabytes and start no faster.
 */
export async function makeRoot(root: string): Promise<string[]> {
  const binds = ['/usr:/usr:ro']
  for (const name of ['usr', 'etc', 'dev', 'proc', 'sys', 'run', 'tmp', 'workspace', 'home/sandbox']) {
    await mkdir(join(root, name), { recursive: true })
  }
  for (const name of SYSTEM) {
    const found = lstatSync(`/${name}`, { throwIfNoEntry: false })
    if (found?.isSymbolicLink()) await symlink(await readlink(`/${name}`), join(root, name))
    else if (found) {
      await mkdir(join(root, name))
      binds.push(`/${name}:/${name}:ro`)
    }
  }
  await writeFile(join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\nsandbox:x:1000:1000::/home/sandbox:/bin/bash\n')
  await writeFile(join(root, 'etc/group'), 'root:x:0:\nsandbox:x:1000:\n')
  if (existsSync('/etc/ld.so.cache')) await cp('/etc/ld.so.cache', join(root, 'etc/ld.so.cache'))
  return binds
}

/** The flags of `docker run` that give a container what a session has by default. */
export function runFlags(binds: readonly string[], options: { cpuCores: number; readonly: boolean }): string[] {
  return [
    ...['--network', 'none', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges', '--user', '1000:1000'],
    ...['--memory', `${LIMITS.memory_mb.default}m`, '--memory-swap', `${LIMITS.memory_mb.default}m`],
    ...['--cpus', String(options.cpuCores), '--pids-limit', String(LIMITS.pids_limit.default)],
    ...['--tmpfs', '/tmp', '--workdir', '/workspace'],
    // docker cp is refused by a read-only container: a benchmark that copies writes to the container's own layer.
    ...(options.readonly ? ['--read-only', '--tmpfs', '/workspace:uid=1000,gid=1000'] : []),
    ...binds.flatMap(bind => ['--volume', bind]),
  ]
}
