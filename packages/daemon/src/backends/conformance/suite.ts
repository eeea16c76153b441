// The conformance suite, which every backend passes with real machines. A check that a backend does not guarantee is excluded by its exact title,
// with a reason.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Backend } from '../backend.ts'
import { EGRESS } from './egress.ts'
import { IMAGES } from './images.ts'
import { ISOLATION } from './isolation.ts'
import { KERNEL } from './kernel.ts'
import { LIFECYCLE } from './lifecycle.ts'
import { LIMITS_HOLD } from './limits.ts'
import { PACKAGES } from './packages.ts'
import { PROC_AND_SYS } from './proc-and-sys.ts'
import { PROGRAMS } from './programs.ts'
import { SHARED_POOLS } from './shared-pools.ts'
import type { Check, Subject } from './subject.ts'
import { TRUST } from './trust.ts'

export const CHECKS: Readonly<Record<string, Check>> = {
  ...LIFECYCLE,
  ...LIMITS_HOLD,
  ...ISOLATION,
  ...PROC_AND_SYS,
  ...EGRESS,
  ...KERNEL,
  ...SHARED_POOLS,
  ...IMAGES,
  ...PROGRAMS,
  ...TRUST,
  ...PACKAGES,
}

const CHECK_MS = 60_000

export function conformance(name: string, subject: Subject, without: Readonly<Record<string, string>>): void {
  describe(`${name} conforms`, () => {
    let backend: Backend | undefined
    beforeAll(async () => {
      backend = await subject.open()
    })
    afterAll(async () => {
      for (const id of (await backend?.sessionIds()) ?? []) await backend?.discard(id)
    })
    test('every exception names a check and a reason', () => {
      for (const [check, reason] of Object.entries(without)) {
        expect(Object.keys(CHECKS)).toContain(check)
        expect(reason).not.toBe('')
      }
    })
    for (const [title, check] of Object.entries(CHECKS)) {
      if (title in without) continue
      test(title, { timeout: CHECK_MS * (subject.patience ?? 1) }, async () => {
        if (backend === undefined) throw new Error('the backend did not open')
        await check(backend, subject)
      })
    }
  })
}
