import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { pack } from 'tar-stream'
import { expect, it, onTestFinished, vi } from 'vitest'
import type { Backend, LayeredImage, RootImage } from '../backend.ts'
import { boxOf, specOf, until } from '../conformance/subject.ts'
import { busyboxImage } from '../rootfs/image.fixture.ts'
import { openDocker } from './backend.ts'
import { dockerContext } from './context.fixture.ts'
import { containerName, SESSION_LABEL } from './engine/names.ts'

// A private engine starts slowly on a busy machine.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const { engine, dataDir, options, subject } = await dockerContext()
const soon = () => AbortSignal.timeout(60_000)
const docker = (...args: string[]) => execFileSync('docker', ['--host', engine.endpoint, ...args], { encoding: 'utf8' })

it('without an engine nothing starts, and the probe has a fix', async () => {
  const backend = openDocker({ ...options, endpoint: 'unix:///no/such/docker.sock' })
  const probe = await backend.probe()
  expect(probe).toMatchObject({
    available: false,
    why: expect.stringContaining('no Docker engine answers at unix:///no/such/docker.sock'),
  })
  // dockerd is installed, because the tests use it.
  expect(probe.fix).toMatch(/^start the engine \(sudo (systemctl start docker|dockerd)\)/)
  await expect(backend.start(specOf(subject), soon())).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  expect(await backend.sessionIds()).toEqual([])
})

it('an engine is used as soon as it becomes available', async () => {
  const socket = join(dataDir, 'late.sock')
  const backend = openDocker({ ...options, endpoint: `unix://${socket}` })
  expect(await backend.probe()).toMatchObject({ available: false })
  symlinkSync(engine.endpoint.replace('unix://', ''), socket)
  await backend.prepare({ image: { kind: 'host' }, trust: null }, soon())
  expect(await backend.probe()).toMatchObject({ available: true })
})

it('an engine that dies during a start is named in the error', async () => {
  const socket = join(dataDir, 'brittle.sock')
  const server = createServer(client => {
    const upstream = connect(engine.endpoint.replace('unix://', ''))
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const)
      from.on('error', () => to.destroy()).pipe(to)
    client.on('data', text => /^POST \/containers\/\w+\/start/.test(text.toString('latin1')) && client.destroy())
  }).listen(socket)
  onTestFinished(() => void server.close())
  const backend = openDocker({ ...options, endpoint: `unix://${socket}` })
  const spec = specOf(subject)
  await expect(backend.start(spec, soon())).rejects.toMatchObject({
    code: 'START_FAILED',
    message: expect.stringContaining('the engine closed the connection during a call'),
  })
  expect(docker('ps', '-aq', '--filter', `label=${SESSION_LABEL}=${spec.id}`)).toBe('')
})

it('a writable root is refused', async () => {
  const backend = openDocker(options)
  const spec = specOf(subject, { readonlyRootfs: false })
  const refusal = {
    code: 'UNSUPPORTED',
    message: expect.stringContaining('nobody is root'),
    hint: expect.stringContaining('oci'),
  }
  await expect(backend.checkRequirements?.(spec)).rejects.toMatchObject(refusal)
  await expect(backend.start(spec, soon())).rejects.toMatchObject(refusal)
  expect(await backend.sessionIds()).toEqual([])
})

it('a container that somebody removed is reported as stopped, and its files are there after the next start', async () => {
  const backend = openDocker(options)
  const spec = specOf(subject)
  const box = boxOf(await backend.start(spec, soon()), spec, subject)
  await box.run('echo kept > f')
  docker('rm', '-f', containerName(spec.id))
  await until('the machine is gone', async () => !(await box.machine.isRunning()))
  expect((await box.machine.exitReason()).text).toContain('somebody removed the container')
  box.link.close()
  const again = boxOf(await backend.start(spec, soon()), spec, subject)
  expect((await again.run('cat f')).output).toBe('kept')
  again.link.close()
  await again.machine.destroy()
})

it('a container that somebody renamed is still found, stopped, started again and removed', async () => {
  const backend = openDocker(options)
  const spec = specOf(subject)
  const running = () => docker('ps', '-q', '--no-trunc', '--filter', `label=${SESSION_LABEL}=${spec.id}`)
  const machine = await backend.start(spec, soon())
  docker('rename', containerName(spec.id), 'mine')
  expect((await openDocker(options).recover()).map(({ id }) => id)).toContain(spec.id)
  // A container of an image that was committed from it has its labels, too, but does not belong to the session.
  docker('commit', 'mine', 'made')
  const theirs = docker('run', '-d', '--network=none', '--entrypoint=/usr/bin/sleep', '--volume=/usr:/usr:ro', 'made', '1000')
  await machine.stop()
  expect(running()).toBe(theirs)
  await backend.start(spec, soon())
  docker('rename', containerName(spec.id), 'mine')
  await backend.discard(spec.id)
  expect(running()).toBe(theirs)
  docker('rm', '-f', theirs.trim())
})

it('pause and resume succeed for a container that somebody has paused or resumed already', async () => {
  const backend = openDocker(options)
  const spec = specOf(subject)
  const box = boxOf(await backend.start(spec, soon()), spec, subject)
  await box.machine.pause?.()
  docker('unpause', containerName(spec.id))
  await box.machine.resume?.()
  expect((await box.run('echo runs')).output).toBe('runs')
  docker('pause', containerName(spec.id))
  await box.machine.pause?.()
  await box.machine.resume?.()
  expect((await box.run('echo runs')).output).toBe('runs')
  docker('kill', containerName(spec.id))
  await expect(box.machine.pause?.()).rejects.toThrow('is not running')
  box.link.close()
  await box.machine.destroy()
})

it('after a killed engine restarts, its containers have ended and a start brings the files back', async () => {
  const backend = openDocker(options)
  const spec = specOf(subject)
  const box = boxOf(await backend.start(spec, soon()), spec, subject)
  await box.run('echo kept > f')
  await engine.restart()
  await until('the machine is gone', async () => !(await box.machine.isRunning()), 30_000)
  expect((await box.machine.exitReason()).limit).toBe(null)
  box.link.close()
  expect(await backend.recover()).toEqual([])
  const again = boxOf(await backend.start(spec, soon()), spec, subject)
  expect((await again.run('cat f')).output).toBe('kept')
  again.link.close()
  await again.machine.destroy()
})

it('the image and the runner are sent again after somebody removed them', async () => {
  const backend = openDocker(options)
  await backend.prepare({ image: { kind: 'host' }, trust: null }, soon())
  docker('image', 'rm', '-f', ...docker('image', 'ls', '-q').trim().split('\n'))
  const spec = specOf(subject)
  const machine = await backend.start(spec, soon())
  await machine.destroy()
})

it('the runner is placed again after somebody removed its volume, and no image can replace it', async () => {
  const backend = openDocker(options)
  const spec = specOf(subject)
  const runs = async (on: Backend, image: RootImage) => {
    const box = boxOf(await on.start({ ...spec, image }, soon()), spec, subject)
    expect((await box.run('echo runs')).output).toBe('runs')
    expect(docker('inspect', '--format', '{{json .HostConfig.Mounts}}', containerName(spec.id))).toContain('"NoCopy":true')
    box.link.close()
    await box.machine.destroy()
  }
  await backend.prepare({ image: { kind: 'host' }, trust: null }, soon())
  for (const removed of [/^(?!.*-filled$)/, /^/]) {
    const names = docker('volume', 'ls', '-q', '--filter', 'name=sandglass-runner-').trim().split('\n')
    docker('volume', 'rm', ...names.filter(name => removed.test(name)))
    await runs(backend, await withRunner())
    await runs(backend, { kind: 'host' })
    await runs(openDocker(options), { kind: 'host' })
  }
  // An engine creates such a volume for a container that names it.
  const [name = ''] = docker('volume', 'ls', '-q', '--filter', 'name=sandglass-runner-').trim().split('\n')
  docker('volume', 'rm', name)
  docker('volume', 'create', name)
  await runs(openDocker(options), { kind: 'host' })
})

/** The busybox image with a file in place of the runner. */
async function withRunner(): Promise<LayeredImage> {
  const image = await busyboxImage(dataDir)
  const archive = pack()
  archive.entry({ name: '.sandglass/runner', mode: 0o755 }, '#!/bin/sh\necho stolen >&2\n')
  archive.finalize()
  const tar = await buffer(archive)
  const blob = join(dataDir, 'layer-with-runner')
  writeFileSync(blob, tar)
  const diffId = `sha256:${createHash('sha256').update(tar).digest('hex')}`
  const layers = [...image.layers, { diffId, blob, compression: 'none' as const }]
  return { ...image, id: `sha256:${'a'.repeat(64)}`, layers }
}

it('nothing of a destroyed session is left in the engine', async () => {
  const backend = openDocker(options)
  const spec = specOf(subject)
  await (await backend.start(spec, soon())).destroy()
  expect(docker('ps', '-aq', '--filter', `name=${containerName(spec.id)}`)).toBe('')
  expect(docker('volume', 'ls', '-q', '--filter', `name=${containerName(spec.id)}`)).toBe('')
})

it('neither the environment nor the token can be read from the engine', async () => {
  const backend = openDocker(options)
  const spec = specOf(subject, { env: { API_KEY: 'sk-verysecret' } })
  const box = boxOf(await backend.start(spec, soon()), spec, subject)
  expect((await box.run('echo $API_KEY')).output).toBe('sk-verysecret')
  const shown = docker('inspect', containerName(spec.id))
  expect(shown).not.toContain('sk-verysecret')
  expect(shown).not.toContain(box.machine.token)
  box.link.close()
  await box.machine.destroy()
})

it('a link in place of the socket is not followed', async () => {
  const backend = openDocker(options)
  const spec = specOf(subject)
  const box = boxOf(await backend.start(spec, soon()), spec, subject)
  await box.run('ln -sf /proc/1/root/run/other.sock /.sandglass-run/runner.sock')
  await expect(box.machine.dial()).rejects.toThrow()
  box.link.close()
  await box.machine.destroy()
})

it('a host folder is mounted read-only, and a link in its place makes the start fail', async () => {
  const backend = openDocker(options)
  const shared = join(dataDir, 'shared')
  mkdirSync(shared)
  writeFileSync(join(shared, 'f'), 'seen')
  const spec = specOf(subject, { mounts: [{ source: shared, target: '/mnt/shared', readonly: true }] })
  const box = boxOf(await backend.start(spec, soon()), spec, subject)
  expect((await box.run('cat /mnt/shared/f; echo; touch /mnt/shared/g 2>&1')).output).toMatch(/^seen\n.*Read-only file system$/)
  box.link.close()
  await box.machine.destroy()
  renameSync(shared, `${shared}.moved`)
  symlinkSync('/etc', shared)
  const failing = specOf(subject, { mounts: spec.mounts })
  await expect(backend.start(failing, soon())).rejects.toMatchObject({ code: 'START_FAILED' })
  expect(await backend.sessionIds()).not.toContain(failing.id)
  await backend.discard(failing.id)
  expect(existsSync(join(dataDir, 'sessions', failing.id))).toBe(false)
})

it('a link inside a session on the path of a mount is not followed on the host', async () => {
  const backend = openDocker(options)
  const shared = join(dataDir, 'nested')
  mkdirSync(join(shared, 'data'), { recursive: true })
  const plain = specOf(subject)
  const first = boxOf(await backend.start(plain, soon()), plain, subject)
  await first.run(`ln -s ${shared} /workspace/way`)
  first.link.close()
  await first.machine.stop()
  const mounts = [{ source: join(shared, 'data'), target: '/workspace/way/data', readonly: true }]
  await expect(backend.start({ ...plain, mounts }, soon())).rejects.toMatchObject({ code: 'START_FAILED' })
  await backend.discard(plain.id)
})
