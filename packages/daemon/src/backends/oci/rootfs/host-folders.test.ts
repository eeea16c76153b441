// Host folders that are mounted into real machines.
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { boxOf, inBox, specOf } from '../../conformance/subject.ts'
import { busyboxLayer, imageOf } from '../../rootfs/image.fixture.ts'
import { ociDataDir, openTestOci } from '../oci.fixture.ts'

const runnerPath = fileURLToPath(new URL('../../../../../../runner/bin/runner', import.meta.url))
const dataDir = ociDataDir()
const subject = { open: () => openTestOci({ dataDir, runtime: 'auto', runnerPath }), starter: [], allowUnenforced: [] }

const OWNER = 4321
const OTHER = 4322
const soon = () => AbortSignal.timeout(20_000)

/** A folder of an ordinary user of the host, with files of that user, of another user, and of root. */
function shared(owner = OWNER): string {
  const folder = mkdtempSync(join(dataDir, 'shared-'))
  const file = (name: string, id: number, mode: number) => {
    writeFileSync(join(folder, name), `${name}\n`)
    chownSync(join(folder, name), id, id)
    chmodSync(join(folder, name), mode)
  }
  file('own', owner, 0o600)
  file('others', OTHER, 0o600)
  file('roots', 0, 0o600)
  file('open', 0, 0o644)
  chownSync(folder, owner, owner)
  chmodSync(folder, 0o755)
  return folder
}

const mount = (source: string, target = '/mnt/shared', readonly = true) => ({ mounts: [{ source, target, readonly }] })

describe('a folder of the host', () => {
  it('is read-only, its owner appears as the user sandbox and everybody else as nobody', async () => {
    const source = shared()
    await inBox(await subject.open(), subject, mount(source), async ({ run, asRoot }) => {
      expect((await run('cat /mnt/shared/own /mnt/shared/open; stat -c %U /mnt/shared/own /mnt/shared/roots')).output).toBe(
        'own\nopen\nsandbox\nnobody',
      )
      for (const who of [run, asRoot]) {
        for (const name of ['others', 'roots'])
          expect((await who(`cat /mnt/shared/${name}`)).output).toContain('Permission denied')
        expect((await who('touch /mnt/shared/made; echo x >/mnt/shared/own')).output).toMatch(
          /Read-only file system.*Read-only file system/s,
        )
      }
      expect((await run('grep /mnt/shared /proc/self/mounts')).output).toMatch(/ ro,.*nosuid,nodev/)
    })
    expect(readdirSync(source)).toEqual(['open', 'others', 'own', 'roots'])
  })

  it('is writable on request, and new files belong to its owner on the host', async () => {
    const source = shared()
    await inBox(await subject.open(), subject, mount(source, '/mnt/shared', false), async ({ run, asRoot }) => {
      expect((await run('echo made >/mnt/shared/made; mkdir /mnt/shared/folder; echo more >>/mnt/shared/own')).output).toBe('')
      for (const who of [run, asRoot])
        expect(
          (
            await who(
              'echo x >/mnt/shared/others; chown 0 /mnt/shared/made; rm -f /mnt/shared/roots/x; echo x >>/mnt/shared/open',
            )
          ).code,
        ).not.toBe(0)
    })
    const { uid, gid } = statSync(join(source, 'made'))
    expect([uid, gid, readFileSync(join(source, 'made'), 'utf8')]).toEqual([OWNER, OWNER, 'made\n'])
    expect(statSync(join(source, 'folder')).uid).toBe(OWNER)
    expect(readFileSync(join(source, 'own'), 'utf8')).toBe('own\nmore\n')
    for (const name of ['others', 'open']) expect(readFileSync(join(source, name), 'utf8')).toBe(`${name}\n`)
  })

  it('that belongs to root shows only world-readable files and is never writable', async () => {
    const source = shared(0)
    const backend = await subject.open()
    await inBox(backend, subject, mount(source), async ({ run, asRoot }) => {
      expect((await run('cat /mnt/shared/open')).output).toBe('open')
      for (const who of [run, asRoot]) expect((await who('cat /mnt/shared/own')).output).toContain('Permission denied')
    })
    const spec = specOf(subject, mount(source, '/mnt/shared', false))
    await expect(backend.checkRequirements?.(spec)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      hint: expect.stringContaining('chown'),
    })
    await expect(backend.start(spec, soon())).rejects.toMatchObject({ code: 'UNSUPPORTED' })
  })

  it('is mounted again after a stop, and unmounted with the machine', async () => {
    const source = shared()
    const backend = await subject.open()
    const spec = specOf(subject, mount(source, '/workspace/deep/below', false))
    for (const name of ['first', 'second']) {
      const box = boxOf(await backend.start(spec, soon()), spec, {})
      expect((await box.run(`touch deep/below/${name}; stat -c %U deep; ls deep/below`)).output).toContain(name)
      expect((await box.run('stat -c %U deep')).output).toBe('sandbox')
      await box.link.request('write', { path: `/workspace/deep/below/api-${name}`, content_base64: 'eA==' })
      box.link.close()
      await box.machine.stop()
    }
    await backend.discard(spec.id)
    expect(readdirSync(source)).toEqual(['api-first', 'api-second', 'first', 'open', 'others', 'own', 'roots', 'second'])
    expect(statSync(join(source, 'api-first')).uid).toBe(OWNER)
    expect(readFileSync('/proc/self/mountinfo', 'utf8')).not.toContain(source)
  })

  it.each([
    ['the folder itself', (source: string) => source],
    ['a folder above it', (source: string) => join(source, 'sub')],
  ])('makes the start fail when a link replaces %s', async (_, asked) => {
    const source = shared()
    mkdirSync(join(source, 'sub'))
    mkdirSync(join(dataDir, 'secret', 'sub'), { recursive: true })
    const backend = await subject.open()
    const spec = specOf(subject, mount(asked(source)))
    await backend.checkRequirements?.(spec)
    renameSync(source, `${source}.away`)
    symlinkSync(join(dataDir, 'secret'), source)
    await expect(backend.start(spec, soon())).rejects.toMatchObject({
      code: 'START_FAILED',
      message: expect.stringContaining('its path contains a link'),
    })
    expect(await backend.sessionIds()).toEqual([])
  })

  it('makes the start fail when a machine has put a link at the mount point', async () => {
    const source = shared()
    const backend = await subject.open()
    const spec = specOf(subject)
    const box = boxOf(await backend.start(spec, soon()), spec, {})
    await box.run('ln -s /etc /workspace/link')
    box.link.close()
    await box.machine.stop()
    await expect(backend.start({ ...spec, ...mount(source, '/workspace/link/x') }, soon())).rejects.toThrow(
      'make mount point /workspace/link/x',
    )
    await backend.discard(spec.id)
  })

  it('makes the start fail when it no longer exists', async () => {
    const source = shared()
    rmSync(source, { recursive: true })
    const backend = await subject.open()
    await expect(backend.start(specOf(subject, mount(source)), soon())).rejects.toMatchObject({ code: 'START_FAILED' })
    expect(existsSync(source)).toBe(false)
  })

  it.each([true, false])(
    'is mounted where the root has no folder (read-only root: %s), and the rest of the root is unchanged',
    async readonlyRootfs => {
      const source = shared()
      const backend = await subject.open()
      const mounts = ['/data', '/srv/a/b', '/srv/c', '/usr/local/share/deep/x', '/home/other'].map(target => ({
        source,
        target,
        readonly: true,
      }))
      const listing = 'ls -ld / /srv /usr /usr/local /usr/local/share /usr/bin/env /etc/passwd; ls / | grep -v data'
      let before = ''
      await inBox(backend, subject, { readonlyRootfs }, async ({ run }) => {
        before = (await run(listing)).output
      })
      await inBox(backend, subject, { readonlyRootfs, mounts }, async ({ run, asRoot }) => {
        for (const { target } of mounts) expect((await run(`cat ${target}/own`)).output).toBe('own')
        expect(withoutTimes((await run(listing)).output)).toEqual(withoutTimes(before))
        if (readonlyRootfs) expect((await asRoot('touch /srv/a/x')).output).toContain('Read-only file system')
        expect((await run('bash -c "echo fine"')).output).toBe('fine')
      })
    },
  )

  it('is mounted where an image has no folder, and refused where it has a link or a file', async () => {
    const source = shared()
    const backend = await subject.open()
    const folder = mkdtempSync(join(dataDir, 'image-'))
    const entries = [
      ...(await busyboxLayer()),
      { name: 'opt', type: 'directory' as const, mode: 0o750, uid: 1000, gid: 33 },
      { name: 'opt/kept', content: 'kept' },
      { name: 'link', type: 'symlink' as const, linkname: 'opt' },
    ]
    const image = await imageOf(folder, [{ entries }])
    const mounts = ['/opt/a/b', '/data'].map(target => ({ source, target, readonly: true }))
    for (const readonlyRootfs of [true, false])
      await inBox(backend, subject, { image, mounts, readonlyRootfs }, async ({ run }) => {
        expect((await run("cat /opt/a/b/own /data/own /opt/kept; stat -c '%u:%g %a' /opt /opt/a")).output).toBe(
          'own\nown\nkept1000:33 750\n0:0 755',
        )
      })
    for (const target of ['/link/x', '/opt/kept', '/opt/kept/x'])
      await expect(backend.start(specOf(subject, { image, ...mount(source, target) }), soon())).rejects.toMatchObject({
        code: 'START_FAILED',
        message: expect.stringContaining(target),
      })
    expect(await backend.sessionIds()).toEqual([])
  })

  it('can be mounted in another one only at an existing folder', async () => {
    const [outer, inner] = [shared(), shared()]
    mkdirSync(join(outer, 'place'))
    const both = (target: string) => ({
      mounts: [
        { source: inner, target, readonly: true },
        { source: outer, target: '/mnt/outer', readonly: true },
      ],
    })
    const backend = await subject.open()
    await inBox(backend, subject, both('/mnt/outer/place'), async ({ run }) => {
      expect((await run('cat /mnt/outer/place/own')).output).toBe('own')
    })
    await expect(backend.start(specOf(subject, both('/mnt/outer/missing')), soon())).rejects.toMatchObject({
      code: 'START_FAILED',
    })
    expect(readdirSync(outer)).not.toContain('missing')
  })

  it('is refused below a tmpfs of the runtime', async () => {
    const backend = await subject.open()
    for (const target of ['/tmp/x', '/run/x'])
      await expect(backend.checkRequirements?.(specOf(subject, mount(shared(), target)))).rejects.toMatchObject({
        code: 'UNSUPPORTED',
      })
  })
})

/** Without the link count and the time, which change when a mount point is created in a folder. */
const withoutTimes = (listing: string) => listing.replaceAll(/^(\S+)\s+\d+ (\w+) +(\w+) +\d+ .* (\S+)$/gm, '$1 $2 $3 $4')
