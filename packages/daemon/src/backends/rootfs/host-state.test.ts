import { mkdir, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../../testing/daemon.fixture.ts'
import { stateOfPrograms } from '../microvm/disks/host-disk.ts'
import { prepareHost } from './host-image.ts'

/** What an installation script does when it runs a second time: it changes the times of folders and nothing else. */
async function touch(root: string): Promise<void> {
  for (const folder of ['usr/bin', 'usr/local/lib/python3', 'etc/alternatives']) {
    await writeFile(join(root, folder, 'temporary'), '')
    await rm(join(root, folder, 'temporary'))
  }
  await rm(join(root, 'etc/alternatives/editor'))
  await symlink('/usr/bin/vi', join(root, 'etc/alternatives/editor'))
  await rm(join(root, 'usr/bin/link'))
  await symlink('vi', join(root, 'usr/bin/link'))
  await writeFile(join(root, 'var/lib/dpkg/status'), 'Package: vi\n')
  await utimes(join(root, 'usr'), new Date(), new Date())
}

it('the host image is copied again when files changed, and not when only the times of folders did', async () => {
  const root = await temporaryFolder()
  for (const folder of ['usr/bin', 'usr/local/lib/python3', 'etc/alternatives', 'var/lib/dpkg'])
    await mkdir(join(root, folder), { recursive: true })
  await writeFile(join(root, 'usr/bin/vi'), '')
  await symlink('vi', join(root, 'usr/bin/link'))
  await symlink('/usr/bin/vi', join(root, 'etc/alternatives/editor'))
  const images = await temporaryFolder()
  const states = async () => [await stateOfPrograms(root), (await prepareHost(images, null, root)).name]
  await touch(root)
  const first = await states()
  await touch(root)
  expect(await states()).toEqual(first)
  await writeFile(join(root, 'usr/local/lib/python3/new'), '')
  const second = await states()
  expect([second[0] === first[0], second[1]]).toEqual([false, first[1]])
  await rm(join(root, 'etc/alternatives/editor'))
  await symlink('/usr/bin/emacs', join(root, 'etc/alternatives/editor'))
  const third = await states()
  expect([third[0], third[1] === second[1]]).toEqual([second[0], false])
  await writeFile(join(root, 'var/lib/dpkg/status'), 'Package: emacs\n')
  expect((await states())[0]).not.toBe(third[0])
})
