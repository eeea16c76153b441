// Stops and continues every process of a machine.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { SandglassError } from '@sandglass/contract/tables'
import type { CgroupLayout } from './layout.ts'

const DEADLINE_MS = 10_000
/** For the first try; each further one has twice as long. */
const FIRST_TRY_MS = 200
const THAWED_MS = 10

/** The two states in a file of the group, and whether the kernel says that it has come to one. */
interface Switch {
  readonly path: string
  readonly frozen: string
  readonly thawed: string
  is(word: string): Promise<boolean>
}

/** Resolves when the kernel says that all are stopped. If they do not within the time, all go on. */
export async function freeze(layout: CgroupLayout, parent: string, group: string, deadlineMs = DEADLINE_MS): Promise<void> {
  const state = switchOf(layout, parent, group)
  const deadline = Date.now() + deadlineMs
  // v1 can stay halfway for good when a process was just being made: letting go for a moment gets it unstuck. But a process that is to stop needs a
  // processor first, for which it may wait long on a busy host: without a longer time for each try none would ever be long enough.
  for (let tryMs = FIRST_TRY_MS; ; tryMs *= 2) {
    if (await becomes(state, state.frozen, Math.min(deadline, Date.now() + tryMs))) return
    await writeFile(state.path, state.thawed)
    if (Date.now() >= deadline) throw new SandglassError('PAUSE_FAILED', { seconds: deadlineMs / 1000 })
    await delay(THAWED_MS)
  }
}

export async function thaw(layout: CgroupLayout, parent: string, group: string): Promise<void> {
  const state = switchOf(layout, parent, group)
  if (!(await becomes(state, state.thawed, Date.now() + DEADLINE_MS)))
    throw new Error('the kernel did not report it thawed in time')
}

async function becomes({ path, is }: Switch, word: string, deadline: number): Promise<boolean> {
  for (;;) {
    await writeFile(path, word)
    if (await is(word)) return true
    if (Date.now() >= deadline) return false
    await delay(1)
  }
}

function switchOf({ version, roots }: CgroupLayout, parent: string, group: string): Switch {
  if (roots.freezer === undefined) throw new Error('no freezer')
  const file = (name: string) => join(roots.freezer ?? '', parent, group, name)
  if (version === 1) {
    const path = file('freezer.state')
    return { path, frozen: 'FROZEN', thawed: 'THAWED', is: async word => (await readFile(path, 'utf8')).trim() === word }
  }
  const events = async () => await readFile(file('cgroup.events'), 'utf8')
  const is = async (word: string) => (await events()).split('\n').includes(`frozen ${word}`)
  return { path: file('cgroup.freeze'), frozen: '1', thawed: '0', is }
}
