import { execFileSync } from 'node:child_process'
import { appendFile, link, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { NetworkEntry } from '@sandglass/contract'
import { describe, expect, it, onTestFinished } from 'vitest'
import { temporaryFolder } from '../testing/daemon.fixture.ts'
import { followEntries, readEntries } from './entries.ts'
import { JSON_LINES, LogFile, openBoth, rotated, TEXT } from './log-file.ts'

const entry = (id: number, fields: Partial<NetworkEntry> = {}): NetworkEntry => ({
  id,
  at: '2030-01-01T00:00:00.000Z',
  type: 'request',
  decision: 'allowed',
  method: 'GET',
  url: `https://example.com/${id}`,
  host: 'example.com',
  port: 443,
  status: 200,
  rule: null,
  reason: null,
  bytes_sent: 0,
  bytes_received: 0,
  duration_ms: 1,
  masked: 0,
  tags: [],
  ...fields,
})
const lines = (...ids: number[]) => ids.map(id => `${JSON.stringify(entry(id))}\n`).join('')

async function logFixture() {
  const folder = await temporaryFolder()
  const path = join(folder, JSON_LINES)
  return {
    folder,
    add: (...ids: number[]) => appendFile(path, lines(...ids)),
    rotate: () => rename(path, join(folder, rotated(JSON_LINES))),
    path,
  }
}

async function ids(entries: AsyncIterable<NetworkEntry>): Promise<number[]> {
  const found: number[] = []
  for await (const { id } of entries) found.push(id)
  return found
}

describe('entries', () => {
  it('come from the rotated file first, and after the given id', async () => {
    const { folder, add, rotate } = await logFixture()
    await add(1, 2, 3)
    await rotate()
    await add(4, 5)
    expect(await ids(readEntries(folder))).toEqual([1, 2, 3, 4, 5])
    expect(await ids(readEntries(folder, 2))).toEqual([3, 4, 5])
  })

  it('are none where there is no log', async () => {
    expect(await ids(readEntries(join(await temporaryFolder(), 'none')))).toEqual([])
  })

  it('that are damaged, too long or not complete are left out', async () => {
    const { folder, path } = await logFixture()
    const long = JSON.stringify(entry(2, { url: 'x'.repeat(300_000) }))
    await writeFile(path, `${lines(1)}{"id":\n\n[]\n${long}\n${lines(3)}${JSON.stringify(entry(4))}`)
    expect(await ids(readEntries(folder))).toEqual([1, 3])
  })

  it('are followed through rotations, and each comes once', async () => {
    const { folder, add, rotate, path } = await logFixture()
    await add(1)
    let hasEnded = false
    const following = followEntries(folder, 0, async () => hasEnded, new AbortController().signal)
    onTestFinished(async () => void (await following.return()))
    const next = async () => (await following.next()).value?.id
    expect(await next()).toBe(1)
    await appendFile(path, lines(2).slice(0, 20))
    await appendFile(path, lines(2).slice(20))
    expect(await next()).toBe(2)
    await add(3)
    await rotate()
    await add(4)
    expect([await next(), await next()]).toEqual([3, 4])
    await add(5)
    await rotate()
    await add(6)
    await rotate()
    await add(7)
    hasEnded = true
    // The file with entry 5 is gone, but it was open.
    expect(await ids(following)).toEqual([5, 6, 7])
  })

  it('are followed before the first one is written', async () => {
    const { folder, add } = await logFixture()
    const following = followEntries(folder, 0, async () => false, new AbortController().signal)
    onTestFinished(async () => void (await following.return()))
    const first = following.next()
    await add(1)
    expect((await first).value?.id).toBe(1)
  })

  it('end when the follower goes away', async () => {
    const { folder } = await logFixture()
    const abort = new AbortController()
    const rest = ids(followEntries(folder, 0, async () => false, abort.signal))
    abort.abort()
    expect(await rest).toEqual([])
  })
})

describe('a log file', () => {
  it.each<[string, (path: string, folder: string) => Promise<unknown> | unknown]>([
    ['a link', (path, folder) => symlink(join(folder, 'secret'), path)],
    ['a second name of another file', (path, folder) => link(join(folder, 'secret'), path)],
    ['a pipe', path => execFileSync('mkfifo', [path])],
    ['a folder', path => mkdir(path)],
  ])('that is %s is not read', async (_what, put) => {
    const folder = await temporaryFolder()
    await writeFile(join(folder, 'secret'), lines(1))
    await put(join(folder, TEXT), folder)
    expect(await LogFile.open(folder, TEXT)).toBeNull()
  })

  it('is opened together with the rotated one, which is another file', async () => {
    const { folder, add, rotate, path } = await logFixture()
    await add(1)
    await rotate()
    expect((await openBoth(folder, JSON_LINES)).map(file => typeof file.inode)).toEqual(['number'])
    await add(2)
    const both = await openBoth(folder, JSON_LINES)
    expect(both[0]?.inode).not.toBe(both[1]?.inode)
    await rm(path)
    await Promise.all(both.map(file => file[Symbol.asyncDispose]()))
  })
})
