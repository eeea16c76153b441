import { expect, it } from 'vitest'
import { progressLine } from './progress.ts'

const MiB = 1024 * 1024

it('with a known total the line shows a bar, percent, rate and remaining time', () => {
  const shown = { name: 'big', bytes: 30 * MiB, total: 120 * MiB, bytesPerSecond: 9 * MiB, columns: 100 }
  expect(progressLine(shown)).toBe(`big  [${'='.repeat(6)}${' '.repeat(18)}] 25%  30.0 MiB of 120.0 MiB  9.0 MiB/s  10 s left`)
  expect(progressLine({ ...shown, bytesPerSecond: MiB })).toContain('2 min left')
  expect(progressLine({ ...shown, bytes: 200 * MiB })).toContain('100%')
})

it('with an unknown total the line shows the bytes so far, and no line is wider than the terminal', () => {
  const shown = { name: 'tree', bytes: 5 * MiB, total: undefined, bytesPerSecond: 0, columns: 80 }
  expect(progressLine(shown)).toBe('tree  5.0 MiB  0 B/s')
  const long = { ...shown, name: `${'long/'.repeat(40)}\x1b[2Jname`, total: 10 * MiB }
  for (const columns of [20, 60, 80]) expect(progressLine({ ...long, columns }).length).toBeLessThan(columns)
  expect(progressLine(long)).toMatch(/^….*name {2}\[/)
})
