// Images with a real daemon and real sandboxes: interrupted pulls, a full disk, and the command line.
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { busyboxLayer } from '../../packages/daemon/src/backends/rootfs/image.fixture.ts'
import { FakeRegistry } from '../../packages/daemon/src/images/testing/fake-registry.fixture.ts'
import {
  imageOf,
  layerFrom,
  layerOf,
  plainImage,
  savedArchive,
  type TestImage,
  tarOf,
} from '../../packages/daemon/src/images/testing/image.fixture.ts'
import { CliHome, SANDGLASS } from './cli-home.ts'
import { deadline } from './deadline.ts'
import { leftovers } from './leftovers.ts'
import { RealDaemon } from './real-daemon.ts'

const MiB = 1024 * 1024
const isRoot = process.getuid?.() === 0

/** A layer with programs, and a layer of incompressible bytes above it. */
async function bootable(noise = 0): Promise<TestImage> {
  const entries = (await busyboxLayer()).map(({ name, content, type, linkname, mode }) => ({
    name,
    ...(content === undefined ? {} : { content }),
    ...(type === 'symlink' ? { type, linkname: linkname ?? '' } : {}),
    ...(mode === undefined ? {} : { mode }),
  }))
  const [layer] = (await plainImage('from the second layer\n', noise)).layers
  return imageOf([layerFrom(await tarOf(entries)), ...(layer ? [layer] : [])], { env: ['GREETING=hi'] })
}

function configFor(registry: FakeRegistry): string {
  const path = join(tmpdir(), `sg-images-${process.pid}-${registry.port}.yaml`)
  writeFileSync(path, registry.config, { mode: 0o600 })
  onTestFinished(() => rmSync(path, { force: true }))
  return path
}

/** The error event of a pull. */
const errorIn = (body: Buffer) => JSON.parse(/^event: error\ndata: (.*)$/m.exec(body.toString())?.[1] ?? 'null')

describe('a pull', () => {
  let daemon: RealDaemon
  let letGo = async () => undefined as undefined
  afterEach(async () => {
    await letGo()
    await daemon.remove()
  })

  test('whose daemon is killed leaves a partial download, and the next pull requests only the rest', async () => {
    const registry = await new FakeRegistry().listen()
    const image = await bootable(8 * MiB)
    const layer = image.layers[1] ?? { digest: '', blob: Buffer.alloc(0) }
    registry.push('app', '1', image)
    registry.trick = (_request, response, path) => {
      if (!path.endsWith(layer.digest)) return false
      response.writeHead(200, { 'content-length': layer.blob.length }).write(layer.blob.subarray(0, 5 * MiB))
      return true
    }
    daemon = await new RealDaemon(['--config', configFor(registry)]).start()
    const reference = `${registry.host}/app:1`
    const cut = daemon.call('POST', '/v1/images/pull', { reference }).catch(() => null)
    const [blobs, layers] = [join(daemon.dataDir, 'images/blobs/sha256'), join(daemon.dataDir, 'images/layers')]
    const part = join(blobs, `${layer.digest.slice(7)}.part`)
    await deadline('half of the layer is there', () => existsSync(part) && statSync(part).size >= 4 * MiB)
    await deadline('it is being unpacked', () => readdirSync(layers).some(name => name.endsWith('.new')))
    await daemon.stop('SIGKILL')
    await cut
    await deadline('what unpacked it ends', () => leftovers(daemon.dataDir).processes.length === 0)
    await daemon.start()
    await deadline('half a layer is gone', () => readdirSync(layers).length === 0)
    expect((await daemon.call('GET', '/v1/images')).json().total).toBe(0)
    registry.trick = () => false
    registry.requests.length = 0
    const session = await daemon.create({ image: reference })
    const asked = registry.blobRequests.find(({ path }) => path.endsWith(layer.digest))
    expect(Number(/^bytes=(\d+)-$/.exec(asked?.headers.range ?? '')?.[1])).toBeGreaterThanOrEqual(4 * MiB)
    expect((await daemon.exec(session.id, 'cat /hello; echo $GREETING')).output).toBe('from the second layer\nhi\n')
    expect(readdirSync(blobs).filter(name => name.endsWith('.part'))).toEqual([])
  })

  test.runIf(isRoot)('that does not fit on the disk is refused or aborted, and its space is freed', async () => {
    const registry = await new FakeRegistry().listen()
    const big = Buffer.concat((await plainImage('', 51 * MiB)).layers.map(({ tar }) => tar))
    registry.push('app', 'big', imageOf([layerFrom(big, 'none')]))
    const [huge] = (await plainImage('', 1)).layers
    const declared = imageOf(huge ? [huge] : [])
    const manifest = JSON.parse(declared.manifest.toString())
    manifest.layers[0].size = 500 * MiB
    registry.push('app', 'huge', declared)
    registry.put('/v2/app/manifests/huge', Buffer.from(JSON.stringify(manifest)))
    daemon = new RealDaemon(['--config', configFor(registry)])
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=210m,mode=700', 'tmpfs', daemon.dataDir])
    letGo = async () => {
      await daemon.stop()
      // A launcher that waits for a start closes the folder a moment after the daemon.
      await deadline('the disk is let go', () => spawnSync('umount', [daemon.dataDir]).status === 0)
      return undefined
    }
    await daemon.start()
    const free = () => statfsSync(daemon.dataDir).bavail * statfsSync(daemon.dataDir).bsize
    const before = free()
    for (const tag of ['huge', 'big']) {
      registry.requests.length = 0
      const reply = await daemon.call('POST', '/v1/images/pull', { reference: `${registry.host}/app:${tag}` })
      expect(errorIn(reply.body), tag).toMatchObject({ code: 'IMAGE_STORE_FULL' })
      if (tag === 'huge') expect(registry.blobRequests).toHaveLength(1) // its configuration
    }
    // The daemon makes an empty disk and a log there; the layer has 51 MiB.
    expect(before - free()).toBeLessThan(8 * MiB)
    expect(readdirSync(join(daemon.dataDir, 'images/layers'))).toEqual([])
    expect((await daemon.call('GET', '/healthz')).status).toBe(200)
  })
})

describe('the command line', () => {
  test('imports, lists, inspects and removes images, and starts sessions from them', async () => {
    const home = await CliHome.open()
    onTestFinished(() => home.close())
    const image = await bootable()
    const archive = join(home.home, 'app.tar')
    writeFileSync(archive, await savedArchive([{ image, tags: ['app:1'] }]))
    expect(await home.run(['image', 'import', archive])).toMatchObject({ code: 0, stdout: `app:1  ${image.id.slice(7, 19)}\n` })
    expect(
      await home.run(['image', 'import', '-', '--name', 'team/other:2'], { input: await savedArchive([{ image, tags: [] }]) }),
    ).toMatchObject({ code: 0 })
    expect((await home.run(['image', 'ls'])).stdout).toMatch(/app:1 .*\nteam\/other:2 /)
    expect(JSON.parse((await home.run(['image', 'inspect', 'app:1', '--json'])).stdout)).toMatchObject({
      id: image.id,
      config: { Env: ['GREETING=hi'] },
    })
    expect((await home.run(['new', 'one', '--image', 'app:1'])).code).toBe(0)
    expect((await home.run(['exec', 'one', '-c', 'cat /hello; echo $GREETING'])).stdout).toBe('from the second layer\nhi\n')
    expect(await home.run(['image', 'rm', 'team/other:2'])).toMatchObject({ code: 0, stdout: 'team/other:2\n' })
    expect(await home.run(['image', 'rm', 'app:1'])).toMatchObject({
      code: 5,
      stderr: expect.stringContaining('in use by session one'),
    })
    await home.run(['rm', '-f', 'one'])
    expect(await home.run(['image', 'rm', 'app:1', 'nope:1'])).toMatchObject({ code: 4, stdout: 'app:1\n' })
    expect(await home.run(['image', 'rm', '-f', 'nope:1'])).toMatchObject({ code: 0 })
    expect(await home.run(['new', '--image', 'Not A Reference'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('not an image reference'),
    })
    expect(await home.run(['image', 'frobnicate'])).toMatchObject({ code: 2 })
  })

  test('imports an OCI layout from a folder', async () => {
    const home = await CliHome.open()
    onTestFinished(() => home.close())
    const folder = join(home.home, 'layout')
    execFileSync('mkdir', [folder])
    const { layoutArchive } = await import('../../packages/daemon/src/images/testing/image.fixture.ts')
    execFileSync('tar', ['-xf', '-', '-C', folder], { input: await layoutArchive(await plainImage(), 'app:3') })
    expect(await home.run(['image', 'import', folder])).toMatchObject({ code: 0, stdout: expect.stringMatching(/^app:3 {2}/) })
    expect(
      await home.run(['image', 'import', '-'], { input: await savedArchive([{ image: await plainImage(), tags: [] }]) }),
    ).toMatchObject({ code: 2, stderr: expect.stringMatching(/^sandglass: --name is missing: .*\n {2}next: .*--name app:1\.0/) })
    expect((await home.run(['image', 'rm', 'app:3'])).code).toBe(0)
  })

  test('imports a complete stream and a complete folder if it must start the daemon first', async () => {
    const home = await CliHome.open()
    onTestFinished(() => home.close())
    const folder = join(home.home, 'layout')
    execFileSync('mkdir', [folder])
    const { layoutArchive } = await import('../../packages/daemon/src/images/testing/image.fixture.ts')
    const archive = await layoutArchive(await plainImage(), 'app:3')
    execFileSync('tar', ['-xf', '-', '-C', folder], { input: archive })
    await home.run(['image', 'ls'])
    for (const [path, input] of [['-', archive], [folder]] as const) {
      expect(await home.run(['shutdown'])).toMatchObject({ code: 0 })
      expect(await home.run(['image', 'import', path], input ? { input } : {})).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/^app:3 {2}/),
      })
    }
  })

  test('prints one progress line per layer on a terminal, and none to a pipe', async () => {
    const registry = await new FakeRegistry().listen()
    const image = imageOf([await layerOf([{ name: 'a', content: '1' }]), ...(await plainImage('x', MiB)).layers])
    registry.push('app', '1', image)
    const home = await CliHome.open()
    onTestFinished(() => home.close())
    const reference = `${registry.host}/app:1`
    const env = { SANDGLASS_CONFIG: configFor(registry) }
    const command = `stty rows 40 cols 120; '${SANDGLASS}' image pull ${reference}`
    const shown = await promisify(execFile)('script', ['-qec', command, '/dev/null'], { env: { ...home.env, ...env } })
    for (const { digest } of image.layers) expect(shown.stdout).toMatch(new RegExp(`${digest.slice(7, 19)}  done +`))
    const quiet = await home.run(['image', 'pull', reference], { env })
    expect(quiet).toMatchObject({ code: 0, stderr: '', stdout: `${reference}  ${image.id.slice(7, 19)}\n` })
    expect(JSON.parse((await home.run(['image', 'ls', '--json'], { env })).stdout)).toMatchObject([{ id: image.id }])
    expect((await home.run(['image', 'pull', `${registry.host}/none`], { env })).code).toBe(4)
  })
})
