import { statSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../testing/daemon.fixture.ts'
import { openedStore } from '../engines.fixture.ts'
import { openStore } from '../open.ts'

const sqlite = (path: string) => ({ engine: 'sqlite', path }) as const

describe('a damaged database', () => {
  it.each([
    ['is no SQLite file', async (path: string) => writeFile(path, 'garbage '.repeat(1000))],
    [
      'has a torn page',
      async (path: string) => {
        await (await openStore(sqlite(path))).destroy()
        const content = await readFile(path)
        await writeFile(path, content.fill(0xff, 100, 4096))
      },
    ],
  ])('that %s is refused with its path and the next step', async (_what, damage) => {
    const path = join(await temporaryFolder(), 'x.db')
    await damage(path)
    await expect(openStore(sqlite(path))).rejects.toMatchObject({
      code: 'STORE_DAMAGED',
      message: expect.stringContaining(path),
      hint: expect.stringContaining('move'),
    })
  })
})

it('only the owner can read the database file', async () => {
  const path = join(await temporaryFolder(), 'x.db')
  await openedStore(sqlite(path))
  expect(statSync(path).mode & 0o777).toBe(0o600)
})
