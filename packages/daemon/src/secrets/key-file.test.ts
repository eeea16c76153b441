import { chmod, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openStore, type Store } from '../store/open.ts'
import { temporaryFolder } from '../testing/daemon.fixture.ts'
import { openSecretKey } from './key-file.ts'
import { putSecret } from './stored.ts'

async function folderFixture(): Promise<{ path: string; store: Store; open: () => Promise<Buffer> }> {
  const folder = await temporaryFolder()
  const path = join(folder, 'secret.key')
  const store = await openStore({ engine: 'sqlite', path: join(folder, 'x.db') })
  onTestFinished(() => store.destroy())
  return { path, store, open: () => openSecretKey(path, store, 'x.db') }
}
const put = (store: Store, secretKey: Buffer) => putSecret({ store, secretKey, now: () => 1000 }, 'a', { value: 'hush' })

describe('the key file', () => {
  it('is created once, has 32 bytes, and only its owner can read it', async () => {
    const { path, open } = await folderFixture()
    const key = await open()
    expect(key.length).toBe(32)
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect(await open()).toEqual(key)
  })

  it.each([0o640, 0o604, 0o660])('with mode %o is refused with the command that fixes it', async mode => {
    const { path, open } = await folderFixture()
    await open()
    await chmod(path, mode)
    await expect(open()).rejects.toMatchObject({ code: 'CONFIG_INSECURE', hint: `chmod 600 ${path}` })
  })

  it('that is missing is created again while no value is sealed, and refused once one is', async () => {
    const { path, store, open } = await folderFixture()
    const first = await open()
    await rm(path)
    const second = await open()
    expect(second).not.toEqual(first)
    await put(store, second)
    await rename(path, `${path}.away`)
    await expect(open()).rejects.toMatchObject({ code: 'SECRET_KEY_LOST', message: expect.stringContaining('is missing') })
    await expect(stat(path)).rejects.toMatchObject({ code: 'ENOENT' })
    await rename(`${path}.away`, path)
    expect(await open()).toEqual(second)
  })

  it('with a key that did not seal the stored values is refused', async () => {
    const { path, store, open } = await folderFixture()
    await put(store, await open())
    await writeFile(path, Buffer.alloc(32, 1))
    await expect(open()).rejects.toMatchObject({ code: 'SECRET_KEY_LOST', message: expect.stringContaining('is another key') })
  })

  it('that is too short is refused', async () => {
    const { path, open } = await folderFixture()
    await writeFile(path, Buffer.alloc(31), { mode: 0o600 })
    await expect(open()).rejects.toMatchObject({ code: 'CONFIG_INVALID', message: expect.stringContaining('32 bytes') })
  })

  it('that a killed daemon left incomplete is created again', async () => {
    const { path, open } = await folderFixture()
    await writeFile(`${path}.new`, Buffer.alloc(3), { mode: 0o600 })
    const key = await open()
    expect(await readFile(path)).toEqual(key)
  })
})
