// The conformance suite as an ordinary user. Outside of a user namespace this file runs itself again inside one, as a user who is not root.
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { usableCgroups } from '../../cgroups/delegation.ts'
import { traces } from '../../conformance/host-view.ts'
import { inBox, type Subject, specOf } from '../../conformance/subject.ts'
import { conformance } from '../../conformance/suite.ts'
import { ORDINARY_USER, WITHOUT_CGROUP } from '../../limitations.ts'
import { ociDataDir, openTestOci } from '../oci.fixture.ts'
import { inUserNamespace, userNamespaceArgv, userNamespaceProblem } from './enter-userns.ts'

const REPOSITORY = fileURLToPath(new URL('../../../../../..', import.meta.url))
const RUNNER = join(REPOSITORY, 'runner/bin/runner')
const TEST_USER = 'sandglass-test'
/** Mount point of the repository for the other user, in a mount namespace of the test: that user may be unable to reach the repository itself. */
const SHOWN_AT = '/media'

if (inUserNamespace()) inside()
else outside()

function inside(): void {
  const dataDir = ociDataDir()
  const starter = fileURLToPath(new URL('../starter.fixture.ts', import.meta.url))
  const subject: Subject = {
    open: () => openTestOci({ dataDir, runtime: 'auto', runnerPath: RUNNER }),
    starter: [process.execPath, starter, dataDir, 'auto', RUNNER],
    allowUnenforced: ['cpu', 'memory', 'pids'],
  }
  const cgroups = usableCgroups(false, 'trial')
  conformance('oci as an ordinary user', subject, { ...ORDINARY_USER, ...(cgroups !== null ? {} : WITHOUT_CGROUP) })

  describe('requirements that need root are refused for an ordinary user', () => {
    test.skipIf(cgroups !== null)(
      'limits without a cgroup are refused by name, and those the operator allows are reported',
      async () => {
        const backend = await subject.open()
        const spec = specOf(subject, { allowUnenforced: ['cpu'] })
        await expect(backend.start(spec, AbortSignal.timeout(20_000))).rejects.toMatchObject({
          code: 'LIMIT_UNENFORCEABLE',
          detail: { limits: ['memory', 'pids'] },
        })
        expect(await backend.sessionIds()).not.toContain(spec.id)
        const machine = await backend.start(specOf(subject), AbortSignal.timeout(20_000))
        expect(machine.unenforced).toEqual(['cpu', 'memory', 'pids'])
        await machine.destroy()
      },
    )

    test.skipIf(cgroups !== null)(
      'a machine whose folder is lost is a resident while the runtime has a record of it',
      async () => {
        const machine = await (await subject.open()).start(specOf(subject), AbortSignal.timeout(20_000))
        rmSync(join(dataDir, 'sessions', machine.id), { recursive: true })
        const next = await subject.open()
        expect(await next.sessionIds()).toContain(machine.id)
        await next.discard(machine.id)
        expect(await machine.isRunning()).toBe(false)
        expect(await next.sessionIds()).not.toContain(machine.id)
        expect(traces(machine.id)).toEqual([])
      },
    )

    test('a host folder shows only world-readable files, and a writable mount is refused', async () => {
      const backend = await subject.open()
      const source = mkdtempSync(join(dataDir, 'shared-'))
      chmodSync(source, 0o755)
      for (const [name, mode] of [['open', 0o644] as const, ['closed', 0o600] as const])
        writeFileSync(join(source, name), name, { mode })
      const mounts = ['/workspace/shared', '/data/shared'].map(target => ({ source, target, readonly: true }))
      await inBox(backend, subject, { mounts }, async ({ run }) => {
        for (const { target } of mounts) {
          expect((await run(`cat ${target}/open`)).output).toBe('open')
          expect((await run(`cat ${target}/closed`)).output).toContain('Permission denied')
          expect((await run(`touch ${target}/made`)).output).toContain('Read-only file system')
        }
      })
      const writable = specOf(subject, { mounts: [{ source, target: '/workspace/shared', readonly: false }] })
      await expect(backend.checkRequirements?.(writable)).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    })

    test('a default runtime that needs root makes the backend unavailable, with a fix', async () => {
      const runtime = join(dataDir, 'runsc')
      writeFileSync(runtime, '#!/bin/sh\necho runsc version release-1\n', { mode: 0o755 })
      expect(await (await openTestOci({ dataDir, runtime, runnerPath: RUNNER })).probe()).toMatchObject({
        available: false,
        why: 'runsc version release-1 cannot be used by an ordinary user',
        fix: 'run the daemon as root, or set backends.oci.runtime to crun',
      })
    })

    test('a writable root is refused', async () => {
      const backend = await subject.open()
      await expect(backend.start(specOf(subject, { readonlyRootfs: false }), AbortSignal.timeout(20_000))).rejects.toMatchObject({
        code: 'UNSUPPORTED',
      })
    })
  })
}

function outside(): void {
  test('the suite passes as an ordinary user', { timeout: 300_000 }, () => {
    const isRoot = process.getuid?.() === 0
    if (isRoot) makeTestUser()
    else expect(userNamespaceProblem()).toBeNull()
    const shown = (path: string) => (isRoot ? join(SHOWN_AT, relative(REPOSITORY, path)) : path)
    const node = process.execPath.startsWith(REPOSITORY) ? shown(process.execPath) : process.execPath
    const vitest = [
      node,
      shown(join(REPOSITORY, 'node_modules/vitest/vitest.mjs')),
      'run',
      'ordinary-user',
      '--reporter=default',
      '--configLoader=native',
    ]
    const own = userNamespaceArgv(vitest, '/nonexistent', RUNNER)
    const argv = own ?? [
      'runuser',
      '-u',
      TEST_USER,
      '--',
      'unshare',
      '--user',
      '--map-root-user',
      '--map-auto',
      '--mount',
      '--',
      ...vitest,
    ]
    const { status, stdout, stderr } = isRoot ? inOwnMounts(argv) : run(argv, REPOSITORY)
    expect(status, `${stdout}\n${stderr}`).toBe(0)
    expect(stdout).toContain('oci as an ordinary user')
  })
}

function inOwnMounts(argv: string[]) {
  const script = 'mount --bind "$1" "$2" && cd "$2" && shift 2 && exec "$@"'
  return run(['unshare', '--mount', 'sh', '-c', script, 'sh', REPOSITORY, SHOWN_AT, ...argv], '/')
}

function run([program = '', ...args]: string[], cwd: string) {
  return spawnSync(program, args, { cwd, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
}

/** A user of this machine with sub-ids, created once and kept. */
function makeTestUser(): void {
  spawnSync('useradd', ['--system', '--no-create-home', '--home-dir', '/tmp', TEST_USER])
  const ids = '1000000-1065535'
  const { status, stderr } = spawnSync('usermod', ['--add-subuids', ids, '--add-subgids', ids, TEST_USER], { encoding: 'utf8' })
  expect(status, stderr).toBe(0)
}
