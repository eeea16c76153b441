import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../daemon.fixture.ts'
import { allowedMounts } from './host-mounts.ts'

const mount = (source: string, target = '/mnt/x') => [{ source, target, readonly: true }]

async function folders() {
  const folder = await temporaryFolder()
  await mkdir(join(folder, 'root/project'), { recursive: true })
  await mkdir(join(folder, 'rootless'))
  await mkdir(join(folder, 'secret'))
  await writeFile(join(folder, 'root/file'), '')
  await symlink('../secret', join(folder, 'root/link'))
  await symlink('project', join(folder, 'root/inner'))
  return { folder, config: { mount_roots: [join(folder, 'root')] } }
}

it('allows what is below a configured root, and gives where it really is', async () => {
  const { folder, config } = await folders()
  expect(await allowedMounts(config, mount(join(folder, 'root/inner')))).toEqual(mount(join(folder, 'root/project')))
  expect(await allowedMounts(config, mount(join(folder, 'root')))).toEqual(mount(join(folder, 'root')))
})

it.each(['secret', 'root/link', 'root/../secret', 'rootless', 'root/file'])('refuses %s', async name => {
  const { folder, config } = await folders()
  await expect(allowedMounts(config, mount(join(folder, name)))).rejects.toMatchObject({ code: 'UNSUPPORTED' })
})

it('refuses a folder that is not there, and every folder where no root is configured', async () => {
  const { folder, config } = await folders()
  await expect(allowedMounts(config, mount(join(folder, 'root/none')))).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
  await expect(allowedMounts({ mount_roots: [] }, mount(join(folder, 'root')))).rejects.toMatchObject({ code: 'UNSUPPORTED' })
})

it.each(['/', '/workspace', '/home', '/proc/x', '/.sandglass', '/.sandglass-run', '/etc', '/mnt/../usr'])(
  'refuses the target %s, which is the sandbox’s own',
  async target => {
    const { folder, config } = await folders()
    await expect(allowedMounts(config, mount(join(folder, 'root'), target))).rejects.toMatchObject({ code: 'UNSUPPORTED' })
  },
)
