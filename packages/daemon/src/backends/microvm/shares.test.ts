// Folders of the host in a machine.
import { chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { traces } from '../conformance/host-view.ts'
import { boxOf, specOf } from '../conformance/subject.ts'
import { openMicrovm } from './backend.ts'
import { testMicrovm } from './microvm.fixture.ts'

const OWNER = 12_345
const options = await testMicrovm()
const root = mkdtempSync(join(tmpdir(), 'sandglass-shares-'))
afterAll(() => {
  for (const dir of [options.dataDir, root]) rmSync(dir, { recursive: true, force: true })
})

function folder(name: string, owner: number): string {
  const path = join(root, name)
  mkdirSync(path)
  writeFileSync(join(path, 'file'), `${name}\n`)
  for (const each of [path, join(path, 'file')]) chownSync(each, owner, owner)
  return path
}

describe('folders of the host', () => {
  it('are seen with their owner as the user, written back as that owner, and read-only where asked', {
    timeout: 120_000,
  }, async () => {
    const [mine, fixed] = [folder('mine', OWNER), folder('fixed', 0)]
    writeFileSync(join(fixed, 'secret'), 'secret', { mode: 0o600 })
    const backend = openMicrovm(options)
    const spec = specOf(
      { allowUnenforced: [] },
      {
        mounts: [
          { source: mine, target: '/workspace/mine', readonly: false },
          { source: fixed, target: '/data/fixed', readonly: true },
        ],
      },
    )
    const machine = await backend.start(spec, AbortSignal.timeout(90_000))
    const box = boxOf(machine, spec, { patience: 4 })
    try {
      expect((await box.run('cat /workspace/mine/file /data/fixed/file; stat -c %U /workspace/mine/file')).output).toBe(
        'mine\nfixed\nsandbox',
      )
      expect((await box.run('echo new > /workspace/mine/made && echo more >> /workspace/mine/file; echo $?')).output).toBe('0')
      expect((await box.asRoot('echo x > /data/fixed/made')).output).toContain('Read-only file system')
      expect((await box.asRoot('cat /data/fixed/secret')).output).toContain('Permission denied')
      expect(readFileSync(join(mine, 'file'), 'utf8')).toBe('mine\nmore\n')
      expect(statSync(join(mine, 'made')).uid).toBe(OWNER)
    } finally {
      box.link.close()
      await machine.destroy()
    }
    expect(traces(spec.id)).toEqual([])
  })

  it('are refused where they cannot be kept apart, or a link is in their place', { timeout: 60_000 }, async () => {
    const backend = openMicrovm(options)
    const start = (source: string, readonly: boolean, other = backend) =>
      other.start(
        specOf({ allowUnenforced: [] }, { mounts: [{ source, target: '/data', readonly }] }),
        AbortSignal.timeout(50_000),
      )
    await expect(start(folder('of-root', 0), false)).rejects.toThrow('would be root’s')
    await expect(start(folder('nine', OWNER), true, openMicrovm({ ...options, shareProto: '9p' }))).rejects.toThrow(
      'has no driver for it',
    )
    symlinkSync(folder('real', OWNER), join(root, 'link'))
    await expect(start(join(root, 'link'), true)).rejects.toThrow('a link leads to it')
    expect(await backend.residents()).toEqual([])
  })
})
