// Tries this repository in a guest with unified cgroups and systemd. The host may have neither, nor hardware support for guests.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bootGuest, type Result } from './boot.ts'
import { programDisk } from './program-disk.ts'
import { systemDisk } from './system-disk.ts'

/** `whole`: every check, with both runtimes. Words narrow it to suites that contain one. */
export type Plan = { whole: boolean; words: readonly string[] }

const CACHE = '.cache/guest'
const SHORT_MS = 8 * 60_000
const WHOLE_MS = 60 * 60_000

export async function runGuest(plan: Plan, onResult: (result: Result) => void, onStep: (step: string) => void): Promise<void> {
  mkdirSync(CACHE, { recursive: true })
  const system = await systemDisk(CACHE)
  onStep('system disk')
  const folder = mkdtempSync(join(tmpdir(), 'sandglass-guest-'))
  try {
    const programs = await programDisk(folder, plan)
    onStep('programs')
    const timeoutMs = plan.whole ? WHOLE_MS : SHORT_MS
    await bootGuest({ system, programs, log: join(CACHE, 'console.log'), timeoutMs }, onResult)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
