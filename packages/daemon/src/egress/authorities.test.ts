import { X509Certificate } from 'node:crypto'
import { chmod, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../testing/daemon.fixture.ts'
import { Authorities, shownAuthority } from './authorities.ts'

const YEAR_MS = 365 * 86_400_000
const START = Date.parse('2030-01-01T00:00:00Z')

async function folderFixture() {
  const folder = await temporaryFolder()
  let now = START
  const open = () => new Authorities(folder, () => now)
  const pass = (ms: number) => {
    now += ms
  }
  return { folder, open, files: () => readdir(join(folder, 'ca')), pass }
}

it('an authority is made at the first need, once, and is there for the next daemon', async () => {
  const { open, files, folder } = await folderFixture()
  const authorities = open()
  expect(await authorities.newest()).toBeUndefined()
  const made = await Promise.all([authorities.current(), authorities.current(), authorities.all().then(all => all[0])])
  expect(new Set(made.map(authority => authority?.fingerprint)).size).toBe(1)
  expect(await files()).toHaveLength(1)
  const [name = ''] = await files()
  expect((await stat(join(folder, 'ca', name))).mode & 0o777).toBe(0o600)
  expect(await open().current()).toEqual(made[0])
  const shown = shownAuthority(await open().current())
  expect(shown).toMatchObject({ created_at: '2030-01-01T00:00:00.000Z', fingerprint: made[0].fingerprint })
  expect(new X509Certificate(shown.certificate).ca).toBe(true)
  expect(JSON.stringify(shown)).not.toContain('PRIVATE')
})

it('a rotation makes another one, and the older ones are kept while machines trust them', async () => {
  const { open, files } = await folderFixture()
  const authorities = open()
  const made = [await authorities.current(), await authorities.rotate(), await authorities.rotate(), await authorities.rotate()]
  expect((await authorities.all()).map(authority => authority.fingerprint)).toEqual(
    made.map(authority => authority.fingerprint).reverse(),
  )
  await authorities.prune(new Set([made[0]?.fingerprint ?? '']))
  const kept = [made[3], made[2], made[0]].map(authority => authority?.fingerprint)
  expect((await authorities.all()).map(authority => authority.fingerprint)).toEqual(kept)
  expect((await open().all()).map(authority => authority.fingerprint)).toEqual(kept)
  expect(await files()).toHaveLength(3)
})

it('an authority is replaced when less than a tenth of its life is left', async () => {
  const { open, pass } = await folderFixture()
  const first = await open().current()
  pass(4 * YEAR_MS)
  expect((await open().current()).fingerprint).toBe(first.fingerprint)
  pass(0.6 * YEAR_MS)
  const authorities = open()
  expect((await authorities.current()).fingerprint).not.toBe(first.fingerprint)
  expect((await authorities.all()).map(({ fingerprint }) => fingerprint)).toContain(first.fingerprint)
})

it('a file that others can read is refused, and one that is damaged is not used', async () => {
  const { open, folder, files } = await folderFixture()
  await open().current()
  const path = join(folder, 'ca', (await files())[0] ?? '')
  await chmod(path, 0o644)
  await expect(open().current()).rejects.toMatchObject({ code: 'CONFIG_INSECURE' })
  await chmod(path, 0o600)
  await writeFile(path, 'half a key')
  const [first] = await open().all()
  expect(first?.certificate).toContain('BEGIN CERTIFICATE')
})
