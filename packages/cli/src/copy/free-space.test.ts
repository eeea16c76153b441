import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { withinFreeSpace } from './free-space.ts'

async function* endless(pieces: number) {
  for (let i = 0; i < pieces; i++) yield new Uint8Array(1024 * 1024)
}

async function taken(announced: number, pieces: number, folder: string): Promise<number> {
  let bytes = 0
  for await (const piece of withinFreeSpace(endless(pieces), folder, 'bomb', announced)) bytes += piece.length
  return bytes
}

const mayMount = process.getuid?.() === 0 // only root can mount a small disk

test.runIf(mayMount)('a file that is longer than announced is stopped before the disk is full', async () => {
  const small = mkdtempSync(join(tmpdir(), 'free-space-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', small])
  onTestFinished(() => {
    execFileSync('umount', [small])
    rmSync(small, { recursive: true })
  })
  await expect(taken(10, 20, small)).rejects.toMatchObject({ code: 'TARGET_FULL' })
  expect(await taken(2 ** 22, 4, small)).toBe(2 ** 22)
})

test('with enough free space every byte is passed on', async () => {
  expect(await taken(0, 40, tmpdir())).toBe(40 * 2 ** 20)
})
