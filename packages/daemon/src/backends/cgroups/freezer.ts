// Freezes and thaws every process of a machine.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { SandglassError } from '@sandglass/contract/tables'
import { nullIfMissing } from '../../lib/missing-file.ts'
import type { Cgroup } from './cgroup.ts'

const DEADLINE_MS = 10_000
const FIRST_TRY_MS = 200
const THAWED_MS = 10

/** The freezer of one cgroup: requests a state, and reads whether the kernel has reached it. */
export interface Freezer {
  /** v1 can stay half frozen forever when a process was just being created. Thawing for a moment lets the next attempt succeed. */
  readonly canStick: boolean
  request(frozen: boolean): Promise<void>
  is(frozen: boolean): Promise<boolean>
}

export const freeze = (cgroup: Cgroup, deadlineMs?: number): Promise<void> => freezeWith(freezerOf(cgroup), deadlineMs)

export async function thaw(cgroup: Cgroup): Promise<void> {
  if (!(await becomes(freezerOf(cgroup), false, Date.now() + DEADLINE_MS)))
    throw new Error('the kernel did not thaw the cgroup in time')
}

/** Resolves when the kernel reports that all processes are frozen. On failure all of them run again. */
export async function freezeWith(freezer: Freezer, deadlineMs = DEADLINE_MS): Promise<void> {
  const deadline = Date.now() + deadlineMs
  try {
    // A process freezes only when it gets a processor, which can take long on a busy host: each try takes twice as long as the one before.
    for (let tryMs = freezer.canStick ? FIRST_TRY_MS : deadlineMs; Date.now() < deadline; tryMs *= 2) {
      if (await becomes(freezer, true, Math.min(deadline, Date.now() + tryMs))) return
      await freezer.request(false)
      await delay(THAWED_MS)
    }
  } catch (error) {
    await freezer.request(false).catch(nullIfMissing)
    throw error
  }
  throw new SandglassError('PAUSE_FAILED', { seconds: deadlineMs / 1000 })
}

async function becomes(freezer: Freezer, frozen: boolean, deadline: number): Promise<boolean> {
  for (;;) {
    await freezer.request(frozen)
    if (await freezer.is(frozen)) return true
    if (Date.now() >= deadline) return false
    await delay(1)
  }
}

function freezerOf({ version, dirs }: Cgroup): Freezer {
  const dir = dirs.freezer
  if (dir === undefined) throw new Error('no freezer')
  const read = async (name: string) => await readFile(join(dir, name), 'utf8')
  if (version === 1) {
    const word = (frozen: boolean) => (frozen ? 'FROZEN' : 'THAWED')
    return {
      canStick: true,
      request: frozen => writeFile(join(dir, 'freezer.state'), word(frozen)),
      is: async frozen => (await read('freezer.state')).trim() === word(frozen),
    }
  }
  return {
    canStick: false,
    request: frozen => writeFile(join(dir, 'cgroup.freeze'), frozen ? '1' : '0'),
    is: async frozen => (await read('cgroup.events')).split('\n').includes(`frozen ${frozen ? 1 : 0}`),
  }
}
