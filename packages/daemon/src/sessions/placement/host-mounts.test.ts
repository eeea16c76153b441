import { mkdir, rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../../testing/daemon.fixture.ts'
import { allowedMounts, stillAllowedMounts } from './host-mounts.ts'

const mount = (source: string, target = '/mnt/x') => [{ source, target, readonly: true }]

async function folders() {
  const folder = await temporaryFolder()
  await mkdir(join(folder, 'root/project'), { recursive: true })
  await mkdir(join(folder, 'rootless'))
  await mkdir(join(folder, 'secret'))
  await writeFile(join(folder, 'root/file'), '')
  await symlink('../secret', join(folder, 'root/link'))
  await symlink('project', join(folder, 'root/inner'))
  await mkdir(join(folder, 'root/daemon/data'), { recursive: true })
  const context = { config: { mount_roots: [join(folder, 'root')] }, dataDir: join(folder, 'root/daemon/data') }
  return { folder, context }
}

it('allows a folder below a configured root, and resolves links in its path', async () => {
  const { folder, context } = await folders()
  expect(await allowedMounts(context, mount(join(folder, 'root/inner')))).toEqual(mount(join(folder, 'root/project')))
})

it.each(['secret', 'root/link', 'root/../secret', 'rootless', 'root/file', 'root/daemon', 'root/daemon/data', 'root'])(
  'refuses %s',
  async name => {
    const { folder, context } = await folders()
    await expect(allowedMounts(context, mount(join(folder, name)))).rejects.toMatchObject({ code: 'UNSUPPORTED' })
  },
)

it('refuses a missing folder, and every folder where no root is configured', async () => {
  const { folder, context } = await folders()
  const none = join(folder, 'root/none')
  await expect(allowedMounts(context, mount(none))).rejects.toMatchObject({
    code: 'INVALID_REQUEST',
    message: `mounts: ${none} does not exist on the host`,
    hint: expect.stringContaining('mount_roots'),
  })
  await expect(allowedMounts({ ...context, config: { mount_roots: [] } }, mount(join(folder, 'root')))).rejects.toMatchObject({
    code: 'UNSUPPORTED',
  })
})

it.each(['/', '/workspace', '/home', '/proc/x', '/.sandglass', '/.sandglass-run', '/etc', '/mnt/../usr'])(
  'refuses the target %s, which the sandbox itself uses',
  async target => {
    const { folder, context } = await folders()
    await expect(allowedMounts(context, mount(join(folder, 'root/project'), target))).rejects.toMatchObject({
      code: 'UNSUPPORTED',
    })
  },
)

it('refuses at a later start a folder that is no longer allowed, and a link in place of the folder', async () => {
  const { folder, context } = await folders()
  const project = join(folder, 'root/project')
  expect(await stillAllowedMounts(context, mount(project))).toEqual(mount(project))
  const less = { ...context, config: { mount_roots: [join(folder, 'rootless')] } }
  await expect(stillAllowedMounts(less, mount(project))).rejects.toMatchObject({ code: 'UNSUPPORTED' })
  await rename(project, join(folder, 'root/moved'))
  await symlink('moved', project)
  await expect(stillAllowedMounts(context, mount(project))).rejects.toThrow('a link is in its place')
})
