// Machines from images of the image store: the same root filesystem on every backend.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { Backend, LayeredImage } from '../backend.ts'
import { busyboxImage, busyboxLayer, type Entry, imageOf } from '../rootfs/image.fixture.ts'
import { type Box, boxOf, type Check, inBox, type Subject, type specOf, startsInTime } from './subject.ts'

const MOUNT_POINTS = ['dev', 'proc', 'sys', 'run', 'tmp', 'home', 'workspace', '.sandglass']

export const IMAGES: Readonly<Record<string, Check>> = {
  "an image becomes the root filesystem, and the session's environment overrides the image's": (backend, subject) =>
    withImage(backend, subject, busyboxImage, { env: { MINE: 'too' } }, async ({ run }) => {
      expect((await run('ls -1 /opt; cat /opt/changed; echo; echo $FROM_IMAGE $MINE; id -u; pwd')).output).toBe(
        'added\nchanged\nsandglass\nnew\nyes too\n1000\n/workspace',
      )
      expect((await run('touch f ~/g /tmp/h && echo ok')).output).toBe('ok')
      expect((await run('touch /opt/x')).code).not.toBe(0)
    }),

  'an image starts even if its mount points are links, files or missing': (backend, subject) =>
    withImage(backend, subject, crookedImage, {}, async ({ run }) => {
      expect(
        (await run('touch /workspace/f ~/g /tmp/h && id -un && cat /etc/hostname /proc/1/comm && echo x >/dev/null')).output,
      ).toBe('node\nconforming\nrunner')
      // The targets of the links are unchanged.
      expect((await run('ls /elsewhere; cat /etc/hosts')).output).toMatch(/^kept\n127\.0\.0\.1/)
    }),

  'an image without a shell runs programs, and exec reports that there is no shell': (backend, subject) =>
    withImage(backend, subject, shellless, {}, async ({ link, run }) => {
      await expect(run('true')).rejects.toThrow('no shell in this image')
      const { message } = await link.request('process.start', { argv: ['/echo', 'hello'] })
      expect(message.process).toMatchObject({ pid: expect.any(Number) })
    }),

  'an image of a hundred layers starts, and upper layers hide lower ones': (backend, subject) =>
    withImage(backend, subject, tallImage, {}, async ({ run }) => {
      expect((await run('ls /n | wc -l; cat /same; ls /opaque')).output.split(/\s+/)).toEqual(['99', '99', 'last'])
    }),

  'files keep the owners and modes that they have in the image': (backend, subject) =>
    withImage(backend, subject, ownedImage, {}, async ({ run }) => {
      expect((await run("stat -c '%u:%g %a' /own/*")).output).toBe('0:0 600\n1000:1000 640\n33:33 644')
      expect((await run('cat /own/a-root; cat /own/b-user')).output).toContain('of user')
      expect((await run('cat /own/a-root')).code).not.toBe(0)
    }),

  'changes to a writable image stay in their own session and survive a restart': async (backend, subject) => {
    await withImage(backend, subject, busyboxImage, { readonlyRootfs: false }, async (box, image) => {
      await box.asRoot('echo mine >/opt/changed; echo x >/opt/made; busybox rm /opt/added')
      await inBox(backend, subject, { image }, async other => {
        expect((await other.run('ls -1 /opt; cat /opt/changed')).output).toBe('added\nchanged\nsandglass\nnew')
      })
      box.link.close()
      await box.machine.stop()
      const again = boxOf(await backend.start(box.spec, startsInTime(subject)), box.spec, subject)
      expect((await again.run('ls -1 /opt; cat /opt/changed')).output).toBe('changed\nmade\nsandglass\nmine')
      again.link.close()
      await again.machine.destroy()
    })
  },
}

type Changes = Parameters<typeof specOf>[1]

/** Runs `work` with a machine from an image, and removes both afterwards. */
async function withImage(
  backend: Backend,
  subject: Subject,
  make: (folder: string) => Promise<LayeredImage>,
  changes: Changes,
  work: (box: Box, image: LayeredImage) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sandglass-image-'))
  try {
    const image = await make(folder)
    await backend.prepare({ image, trust: null }, AbortSignal.timeout(60_000))
    await inBox(backend, subject, { ...changes, image }, box => work(box, image))
    await backend.pruneImages?.([], new Set())
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Every mount point is a link, the files that we replace are links or folders, and another user has the id of the sandbox user. */
async function crookedImage(folder: string): Promise<LayeredImage> {
  const links = MOUNT_POINTS.map(name => ({ name, type: 'symlink', linkname: '/elsewhere' }) satisfies Entry)
  const files: Entry[] = [
    { name: 'elsewhere/kept', content: '' },
    { name: 'etc/hosts', type: 'symlink', linkname: '/elsewhere/kept' },
    { name: 'etc/resolv.conf', type: 'directory' },
    { name: 'lib/passwd', content: 'root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n' },
    { name: 'etc/passwd', type: 'symlink', linkname: '../lib/passwd' },
  ]
  const base = (await busyboxLayer()).filter(({ name }) => name !== 'etc/passwd')
  return await imageOf(folder, [{ entries: base }, { entries: [...links, ...files] }])
}

async function shellless(folder: string): Promise<LayeredImage> {
  const [busybox] = await busyboxLayer()
  return await imageOf(folder, [{ entries: [{ name: 'echo', mode: 0o755, content: busybox?.content ?? '' }] }])
}

async function tallImage(folder: string): Promise<LayeredImage> {
  const layers = Array.from({ length: 100 }, (_, i): { entries: Entry[] } => ({
    entries: [
      { name: `n/${i}`, content: '' },
      { name: 'same', content: `${i}\n` },
      { name: `opaque/${i === 99 ? 'last' : i}`, content: '' },
    ],
  }))
  layers[0]?.entries.push(...(await busyboxLayer()))
  // The same layer twice, as builders produce for a step that changes nothing.
  for (const i of [40, 80]) layers[i] = { entries: [{ name: 'n/twice', content: '' }] }
  layers[99]?.entries.push({ name: 'opaque/.wh..wh..opq', content: '' })
  return await imageOf(folder, layers)
}

async function ownedImage(folder: string): Promise<LayeredImage> {
  const own = (name: string, id: number, mode: number, content: string) => ({
    name: `own/${name}`,
    uid: id,
    gid: id,
    mode,
    content,
  })
  const entries = [
    own('a-root', 0, 0o600, 'of root'),
    own('b-user', 1000, 0o640, 'of user'),
    own('c-other', 33, 0o644, 'of another'),
  ]
  return await imageOf(folder, [{ entries: [...(await busyboxLayer()), ...entries] }])
}
