// Shared folders of the host.
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { traces } from '../../conformance/host-view.ts'
import { type Box, inBox, type Subject, specOf } from '../../conformance/subject.ts'
import { openMicrovm } from '../backend.ts'
import { removeTestMicrovm, testMicrovm } from '../microvm.fixture.ts'

const OWNER = 12_345
const options = await testMicrovm()
const subject: Subject = { open: async () => openMicrovm(options), starter: [], allowUnenforced: [], patience: 4 }
const root = mkdtempSync(join(tmpdir(), 'sandglass-shares-'))
afterAll(async () => {
  rmSync(root, { recursive: true, force: true })
  await removeTestMicrovm(options)
})

function folder(name: string, owner: number): string {
  const path = join(root, name)
  mkdirSync(path)
  writeFileSync(join(path, 'file'), `${name}\n`)
  for (const each of [path, join(path, 'file')]) chownSync(each, owner, owner)
  return path
}

/** The kernel for virtual machines has no 9p driver. */
function fullKernel(): string {
  const boot = fileURLToPath(new URL('../../../../../../.cache/full-kernel/boot/', import.meta.url))
  const name = readdirSync(boot).find(each => each.startsWith('vmlinuz-'))
  return join(boot, name ?? 'missing')
}

describe('shared folders', () => {
  it('appear as the user’s, are written as their owner on the host, and can be read-only', {
    timeout: 120_000,
  }, async () => {
    const [mine, fixed] = [folder('mine', OWNER), folder('fixed', 0)]
    let id = 'none'
    await inBox(openMicrovm(options), subject, { mounts: mountsOf(mine, fixed, false) }, async box => {
      await seesBoth(box, mine, fixed)
      expect((await box.run('echo new > /workspace/mine/made && echo more >> /workspace/mine/file; echo $?')).output).toBe('0')
      expect(readFileSync(join(mine, 'file'), 'utf8')).toBe('mine\nmore\n')
      expect(statSync(join(mine, 'made')).uid).toBe(OWNER)
      id = box.spec.id
    })
    expect(traces(id)).toEqual([])
  })

  it('work read-only through 9p, with a kernel that supports it', { timeout: 120_000 }, async () => {
    const backend = openMicrovm({ ...options, kernel: fullKernel(), shareProto: '9p' })
    const [mine, fixed] = [folder('nine', OWNER), folder('nine-fixed', 0)]
    await inBox(backend, subject, { mounts: mountsOf(mine, fixed, true) }, async box => {
      await seesBoth(box, mine, fixed)
      expect((await box.asRoot('echo x > /workspace/mine/made')).output).toContain('Read-only file system')
    })
    const writable = specOf(subject, { mounts: mountsOf(mine, fixed, false) })
    await expect(backend.start(writable, AbortSignal.timeout(50_000))).rejects.toThrow('a writable mount with 9p')
  })

  it('are refused if they belong to root or are symbolic links', { timeout: 60_000 }, async () => {
    const backend = openMicrovm(options)
    const start = (source: string, readonly: boolean, other = backend) =>
      other.start(specOf(subject, { mounts: [{ source, target: '/data', readonly }] }), AbortSignal.timeout(50_000))
    await expect(start(folder('of-root', 0), false)).rejects.toThrow('would belong to root')
    symlinkSync(folder('real', OWNER), join(root, 'link'))
    await expect(start(join(root, 'link'), true)).rejects.toThrow('its path contains a link')
    expect(await backend.sessionIds()).toEqual([])
  })
})

const mountsOf = (mine: string, fixed: string, readonly: boolean) => [
  { source: mine, target: '/workspace/mine', readonly },
  { source: fixed, target: '/data/fixed', readonly: true },
]

async function seesBoth(box: Box, mine: string, fixed: string): Promise<void> {
  writeFileSync(join(fixed, 'secret'), 'secret', { mode: 0o600 })
  const { output } = await box.run('cat /workspace/mine/file /data/fixed/file; stat -c %U /workspace/mine/file')
  expect(output).toBe(`${basename(mine)}\n${basename(fixed)}\nsandbox`)
  expect((await box.asRoot('echo x > /data/fixed/made')).output).toContain('Read-only file system')
  expect((await box.asRoot('cat /data/fixed/secret')).output).toContain('Permission denied')
}
