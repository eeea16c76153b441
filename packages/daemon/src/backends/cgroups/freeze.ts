// Stops and continues every process of a machine.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { SandglassError } from '@sandglass/contract/tables'
import { nullIfMissing } from '../../lib/missing-file.ts'
import type { CgroupLayout } from './layout.ts'

const DEADLINE_MS = 10_000
const FIRST_TRY_MS = 200
const THAWED_MS = 10

/** What the kernel is asked for, and whether it says that it is so. */
export interface Freezer {
  /** v1 can stay halfway for good when a process was just being made; letting go for a moment gets it unstuck. */
  readonly canStick: boolean
  ask(frozen: boolean): Promise<void>
  is(frozen: boolean): Promise<boolean>
}

export const freeze = (layout: CgroupLayout, parent: string, group: string, deadlineMs?: number): Promise<void> =>
  stop(freezerOf(layout, parent, group), deadlineMs)

export async function thaw(layout: CgroupLayout, parent: string, group: string): Promise<void> {
  const becomesThawed = becomes(freezerOf(layout, parent, group), false, Date.now() + DEADLINE_MS)
  if (!(await becomesThawed)) throw new Error('the kernel did not report it thawed in time')
}

/** Resolves when the kernel says that all are stopped. If that fails, all go on. */
export async function stop(freezer: Freezer, deadlineMs = DEADLINE_MS): Promise<void> {
  const deadline = Date.now() + deadlineMs
  try {
    // A process that is to stop needs a processor first, for which it may wait long on a busy host: each try has twice as long as the one before.
    for (let tryMs = freezer.canStick ? FIRST_TRY_MS : deadlineMs; Date.now() < deadline; tryMs *= 2) {
      if (await becomes(freezer, true, Math.min(deadline, Date.now() + tryMs))) return
      await freezer.ask(false)
      await delay(THAWED_MS)
    }
  } catch (error) {
    await freezer.ask(false).catch(nullIfMissing)
    throw error
  }
  throw new SandglassError('PAUSE_FAILED', { seconds: deadlineMs / 1000 })
}

async function becomes(freezer: Freezer, frozen: boolean, deadline: number): Promise<boolean> {
  for (;;) {
    await freezer.ask(frozen)
    if (await freezer.is(frozen)) return true
    if (Date.now() >= deadline) return false
    await delay(1)
  }
}

function freezerOf({ version, roots }: CgroupLayout, parent: string, group: string): Freezer {
  if (roots.freezer === undefined) throw new Error('no freezer')
  const dir = join(roots.freezer, parent, group)
  const read = async (name: string) => await readFile(join(dir, name), 'utf8')
  if (version === 1) {
    const word = (frozen: boolean) => (frozen ? 'FROZEN' : 'THAWED')
    return {
      canStick: true,
      ask: frozen => writeFile(join(dir, 'freezer.state'), word(frozen)),
      is: async frozen => (await read('freezer.state')).trim() === word(frozen),
    }
  }
  return {
    canStick: false,
    ask: frozen => writeFile(join(dir, 'cgroup.freeze'), frozen ? '1' : '0'),
    is: async frozen => (await read('cgroup.events')).split('\n').includes(`frozen ${frozen ? 1 : 0}`),
  }
}
