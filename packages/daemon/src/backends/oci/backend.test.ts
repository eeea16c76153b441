import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { NO_OVERCOMMIT } from '../../data-dir/disk-policy.ts'
import { specOf } from '../conformance/subject.ts'
import { egressSocketFolder, egressUser } from '../machine/egress-endpoint.ts'
import { busyboxImage } from '../rootfs/image.fixture.ts'
import { ociDataDir, openTestOci } from './oci.fixture.ts'
import { ociPaths } from './paths.ts'

const runnerPath = fileURLToPath(new URL('../../../../../runner/bin/runner', import.meta.url))
const dataDir = ociDataDir()
const subject = { open: () => openTestOci({ dataDir, runtime: 'auto', runnerPath }), starter: [], allowUnenforced: [] }
const namesIn = (folder: string) => (existsSync(folder) ? readdirSync(folder) : [])

describe('the oci backend', () => {
  it('is unavailable without its runtime, reports what to install, and starts nothing', async () => {
    const backend = await openTestOci({ dataDir, runtime: '/no/such/crun', runnerPath })
    expect(await backend.probe()).toMatchObject({ available: false, fix: 'sudo apt-get install -y crun' })
    await expect(backend.start(specOf(subject), AbortSignal.timeout(20_000))).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
    })
    expect(await backend.sessionIds()).toEqual([])
  })

  it('refuses a data folder whose socket paths would be too long', () => {
    expect(() => ociPaths(`/${'x'.repeat(90)}`)).toThrow('too long for unix sockets')
    expect(() => ociPaths('/data').session('../../etc')).toThrow('not a machine id')
  })

  it.each(['broken', 'runc'])(
    'reports the error message of a failed runtime called %s, and leaves nothing behind',
    async name => {
      const runtime = join(dataDir, name)
      const script = `[ "$1" = --version ] && echo ${name} version 1 && exit\necho something is wrong >&2\nexit 1`
      writeFileSync(runtime, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
      const backend = await openTestOci({ dataDir, runtime, runnerPath })
      await expect(backend.start(specOf(subject), AbortSignal.timeout(20_000))).rejects.toThrow('something is wrong')
      expect(await backend.sessionIds()).toEqual([])
    },
  )

  it('stores the token only in config.json, and the environment in no file', async () => {
    const backend = await subject.open()
    const machine = await backend.start(specOf(subject, { env: { SECRET: 'sk-in-no-file' } }), AbortSignal.timeout(20_000))
    const folder = join(dataDir, 'sessions', machine.id)
    expect(statSync(join(folder, 'config.json')).mode & 0o777).toBe(0o600)
    for (const file of ['config.json', 'state.json', 'logs/boot.log']) {
      const text = readFileSync(join(folder, file), 'utf8')
      expect(text).not.toContain('sk-in-no-file')
      expect(text.includes(machine.token)).toBe(file === 'config.json')
    }
    expect(statSync(join(dataDir, 'run', `${machine.id}.sock`)).mode & 0o777).toBe(0o600)
    await machine.destroy()
  })

  it('gives the socket for egress to the user of the egress process, and only to machines with egress', async () => {
    const backend = await subject.open()
    const folder = egressSocketFolder(dataDir)
    const without = await backend.start(specOf(subject), AbortSignal.timeout(20_000))
    expect(namesIn(folder)).toEqual([])
    const machine = await backend.start(specOf(subject, { egress: true }), AbortSignal.timeout(20_000))
    expect(namesIn(folder)).toEqual([machine.id])
    const { uid, mode } = lstatSync(join(folder, machine.id))
    expect([uid, mode & 0o777]).toEqual([egressUser(dataDir)?.uid ?? process.getuid?.(), 0o600])
    expect(machine.egress?.token).not.toBe(machine.token)
    const record = readFileSync(join(dataDir, 'sessions', machine.id, 'config.json'), 'utf8')
    expect(JSON.parse(record)).toMatchObject({ token: machine.token, egressToken: machine.egress?.token })
    for (const started of [machine, without]) await started.destroy()
    expect(namesIn(folder)).toEqual([])
  })

  it('refuses to unpack a layer into space that is promised to sessions', async () => {
    const image = await busyboxImage(dataDir)
    const folder = join(dataDir, 'sessions', specOf(subject).id)
    mkdirSync(folder)
    writeFileSync(join(folder, 'disk.ext4'), '')
    truncateSync(join(folder, 'disk.ext4'), 2 ** 43)
    const prepare = async (overcommit: number) => {
      const backend = await openTestOci({ dataDir, runtime: 'auto', runnerPath, disk: { ...NO_OVERCOMMIT, overcommit } })
      await backend.prepare({ image, trust: null }, AbortSignal.timeout(20_000))
    }
    await expect(prepare(1)).rejects.toThrow('no disk space for image busybox:test')
    await prepare(Number.POSITIVE_INFINITY)
    rmSync(folder, { recursive: true })
  })

  it('removes the folder of an interrupted start', async () => {
    const backend = await subject.open()
    const { id } = specOf(subject)
    mkdirSync(join(dataDir, 'sessions', id, 'logs'), { recursive: true })
    writeFileSync(join(dataDir, 'sessions', id, 'config.json'), '{"version":1,')
    expect(await backend.sessionIds()).toContain(id)
    expect(await backend.recover()).toEqual([])
    await backend.discard(id)
    expect(await backend.sessionIds()).not.toContain(id)
  })
})
