// Packages: folders of the daemon with programs, which every user of a machine can run and nobody can change.
import { randomBytes } from 'node:crypto'
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { MachinePackage, RootImage } from '../backend.ts'
import { busyboxImage, busyboxLayer, type Entry, imageOf } from '../rootfs/image.fixture.ts'
import { boxOf, type Check, inBox, specOf, startsInTime } from './subject.ts'

const TARGET = '/opt/sandglass/claude'
const PROGRAM = `${TARGET}/bin/claude`

export const PACKAGES: Record<string, Check> = {
  'a package is visible to every user, executable and read-only': (backend, subject) =>
    withPackage('first', async first => {
      await inBox(backend, subject, { packages: [first] }, async ({ run, asRoot }) => {
        expect((await run(`${PROGRAM} hello`)).output).toBe('first hello')
        expect((await asRoot(`${PROGRAM} hello`)).output).toBe('first hello')
        expect((await run(`stat -c '%a %U' ${TARGET} ${TARGET}/tool`)).output).toMatch(/^755 \w+\n755 \w+$/)
        for (const change of [
          `touch ${TARGET}/new`,
          `echo x >> ${TARGET}/tool`,
          `rm -f ${TARGET}/tool`,
          `chmod 777 ${TARGET}/tool`,
        ])
          expect((await asRoot(change)).code, change).not.toBe(0)
        expect((await run('ls /opt/sandglass/codex')).output).toBe('')
      })
    }),

  'a package is in an image and in a writable root, and another one takes its place at the next start': (backend, subject) =>
    withPackage('first', first =>
      withPackage('second', second =>
        withImage(async image => {
          const { noWritable } = await roots(backend, subject)
          const spec = specOf(subject, { image, packages: [first], readonlyRootfs: noWritable, persist: true })
          await backend.prepare(spec, AbortSignal.timeout(60_000))
          for (const [wanted, said] of [
            [first, 'first'],
            [second, 'second'],
            [null, ''],
          ] as const) {
            const machine = await backend.start({ ...spec, packages: wanted === null ? [] : [wanted] }, startsInTime(subject))
            const box = boxOf(machine, spec, subject)
            try {
              expect((await box.run(`${PROGRAM} 2>/dev/null`)).output).toBe(said)
              expect((await box.asRoot(`touch ${TARGET}/new`)).code === 0).toBe(wanted === null && !noWritable)
            } finally {
              box.link.close()
              await machine.stop()
            }
          }
          await backend.discard(spec.id)
        }),
      ),
    ),

  'an image whose /opt is a link keeps what it leads to': (backend, subject) =>
    withImage(
      async image => {
        await inBox(backend, subject, { image }, async ({ run }) => {
          expect((await run('cat /opt/own')).output).toBe('mine')
        })
      },
      async folder => {
        const link: Entry = { name: 'opt', linkname: 'var/opt', type: 'symlink' }
        return await imageOf(folder, [{ entries: [...(await busyboxLayer()), { name: 'var/opt/own', content: 'mine' }, link] }])
      },
    ),
}

/** Whether the host and the backend have no writable root. */
async function roots(backend: Parameters<Check>[0], subject: Parameters<Check>[1]): Promise<{ noWritable: boolean }> {
  if (subject.strongest !== undefined) return { noWritable: true }
  const requirements = specOf(subject, { readonlyRootfs: false })
  const isRefused = await backend.checkRequirements?.(requirements).then(
    () => false,
    () => true,
  )
  return { noWritable: isRefused ?? false }
}

async function withPackage(says: string, work: (found: MachinePackage) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sandglass-package-'))
  try {
    await chmod(folder, 0o755)
    await mkdir(join(folder, 'bin'))
    await writeFile(join(folder, 'tool'), `#!/bin/sh\nexec echo ${says} "$@"\n`)
    await chmod(join(folder, 'bin'), 0o755)
    await chmod(join(folder, 'tool'), 0o755)
    await symlink('../tool', join(folder, 'bin/claude'))
    // A digest that no other run has: a backend may keep what it has made of a package.
    await work({ name: 'claude', digest: randomBytes(32).toString('hex'), folder, target: TARGET })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function withImage(
  work: (image: RootImage) => Promise<void>,
  make: (folder: string) => Promise<RootImage> = busyboxImage,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sandglass-image-'))
  try {
    await work(await make(folder))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
