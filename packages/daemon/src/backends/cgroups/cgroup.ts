// The cgroup of one machine or container, with its directory in every hierarchy.
import { existsSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type CgroupLayout, CONTROLLERS, type Controller, readLayout } from './layout.ts'

export interface Cgroup {
  readonly version: 1 | 2
  /** On v2 the same directory for every controller. A controller that is not mounted is absent. */
  readonly dirs: Readonly<Partial<Record<Controller, string>>>
}

/** The cgroup `group` below the daemon's own folder `parent`; null where the daemon has no cgroups. */
export function machineCgroup(layout: CgroupLayout | null, parent: string, group: string): Cgroup | null {
  if (layout === null) return null
  const dirs = Object.entries(layout.roots).map(([controller, root]) => [controller, join(root, parent, group)])
  return { version: layout.version, dirs: Object.fromEntries(dirs) }
}

/** The cgroup that a process of this host is in. Throws when the process is gone. */
export async function cgroupOfProcess(pid: number): Promise<Cgroup> {
  const text = await readFile(`/proc/${pid}/cgroup`, 'utf8')
  const layout = readLayout(readFileSync('/proc/self/mountinfo', 'utf8'), existsSync)
  const dirs = CONTROLLERS.flatMap(controller => {
    const [root, path] = [layout?.roots[controller], pathIn(text, layout?.version === 2 ? '' : controller)]
    return root === undefined || path === undefined ? [] : [[controller, join(root, path)]]
  })
  return { version: layout?.version ?? 2, dirs: Object.fromEntries(dirs) }
}

/** The path in the line `number:controllers:path` of the hierarchy with this controller; '' is the unified one. */
function pathIn(text: string, controller: string): string | undefined {
  const lines = text.split('\n').map(line => line.split(/:(.*?):(.*)/))
  return lines.find(([, controllers = '']) => controllers.split(',').includes(controller))?.[2]
}

/** '' when the file does not exist: kernels differ in which they have, and the machine may just have ended. */
export async function readCgroupFile(cgroup: Cgroup, controller: Controller, file: string): Promise<string> {
  const dir = cgroup.dirs[controller]
  return dir === undefined ? '' : await readFile(join(dir, file), 'utf8').catch(() => '')
}

/** The number after `name` in a file with one name and one number per line; null when there is no such line. */
export function field(text: string, name: string): number | null {
  const value = text
    .split('\n')
    .find(line => line.startsWith(`${name} `))
    ?.split(' ')[1]
  return value === undefined ? null : Number(value)
}
