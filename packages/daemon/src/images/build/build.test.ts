import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import Docker from 'dockerode'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { testEngine } from '../../backends/docker/engine/engine.fixture.ts'
import { ownerOf } from '../../backends/docker/engine/names.ts'
import { temporaryFolder, until } from '../../testing/daemon.fixture.ts'
import { type BuildDaemon, type BuildDaemonOptions, buildDaemon, smallImage } from '../testing/build-daemon.fixture.ts'
import { FakeRegistry } from '../testing/fake-registry.fixture.ts'

// Each build starts containers, one after the other.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const engine = await testEngine()
const client = new Docker({ socketPath: engine.endpoint.replace('unix://', '') })
afterAll(() => engine.stop())

const base = await smallImage()
const RANDOM = '/proc/sys/kernel/random/uuid'

async function daemonWithBase(options: BuildDaemonOptions = {}): Promise<BuildDaemon> {
  const daemon = await buildDaemon(engine, options)
  await daemon.importImage(base, 'small:1')
  return daemon
}

async function configFile(text: string): Promise<string> {
  const file = join(await temporaryFolder(), 'config.yaml')
  await writeFile(file, text, { mode: 0o600 })
  return file
}

describe('a build', () => {
  it('of two stages with COPY, RUN, ENV and USER makes an image that runs on oci and docker', async () => {
    const daemon = await daemonWithBase()
    const built = await daemon.build(
      {
        Dockerfile: [
          'ARG BASE=nothing',
          `FROM ${'$'}{BASE} AS maker`,
          'ARG GREETING',
          'COPY src /src',
          'RUN cat /src/a /src/deep/b > /made && \\',
          '  # a comment in the middle',
          '  echo "$GREETING" >> /made',
          'FROM $BASE',
          'COPY --from=maker /made /opt/made',
          'ENV FROM_BUILD=yes',
          'RUN id -u > /opt/builder',
          'USER sandbox',
        ].join('\n'),
        'src/a': 'A',
        'src/deep/b': 'B\n',
      },
      { query: { reference: 'app:1' }, args: { BASE: 'small:1', GREETING: 'hello' } },
    )
    expect(built.error).toBeUndefined()
    expect(built.steps.map(({ instruction }) => instruction)).toContain('FROM small:1 AS maker')
    expect(built.done).toMatchObject({ cached: false, image: { references: ['docker.io/library/app:1'], source: 'build' } })
    const command = 'cat /opt/made /opt/builder; echo $FROM_BUILD; id -un; ls -A /src 2>&1'
    for (const backend of ['oci', 'docker'])
      expect(await daemon.run('app:1', backend, command)).toBe('AB\nhello\n0\nyes\nsandbox\nls: /src: No such file or directory')
  })

  it('runs once for the same content, and again if one byte changes', async () => {
    const daemon = await daemonWithBase()
    const files = { Dockerfile: `FROM small:1\nCOPY f /f\nRUN cat ${RANDOM} > /id\n`, f: 'one' }
    const first = await daemon.build(files, { query: { reference: 'app:1' } })
    const second = await daemon.build(files, { query: { reference: 'app:2' } })
    expect(first.done).toMatchObject({ cached: false })
    expect(second.done).toMatchObject({ cached: true, built_at: first.done?.built_at, image: { id: first.done?.image.id } })
    expect(second.done?.image.references).toEqual(['docker.io/library/app:1', 'docker.io/library/app:2'])
    expect(second.steps).toEqual([])
    const others = [
      { ...files, f: 'two' },
      { ...files, g: '' },
      { ...files, Dockerfile: `${files.Dockerfile}ENV A=1\n` },
    ]
    for (const changed of others) expect((await daemon.build(changed)).done).toMatchObject({ cached: false })
    expect((await daemon.build(files, { args: { UNUSED: '1' } })).done).toMatchObject({ cached: false })
    expect((await daemon.build(files)).done).toMatchObject({ cached: true })
  })

  it('starts after the unchanged steps, and runs all steps with no_cache', async () => {
    const daemon = await daemonWithBase()
    const files = { Dockerfile: `FROM small:1\nRUN cat ${RANDOM} > /id\nCOPY f /f\n`, f: 'one' }
    const first = await daemon.build(files)
    const changed = await daemon.build({ ...files, f: 'two' })
    const idIn = (built: typeof first) => daemon.run(built.done?.image.id ?? '', 'oci', 'cat /id')
    expect(changed.steps.filter(({ cached }) => cached).map(({ step }) => step)).toEqual([2])
    expect(await idIn(changed)).toBe(await idIn(first))
    const anew = await daemon.build(files, { query: { no_cache: true } })
    expect(anew.done).toMatchObject({ cached: false })
    expect(await idIn(anew)).not.toBe(await idIn(first))
  })

  it('runs every step again if its result is older than the maximum age', async () => {
    let now = Date.now()
    const daemon = await daemonWithBase({ now: () => now, images: { max_image_age_seconds: 1000 } })
    const files = { Dockerfile: `FROM small:1\nRUN cat ${RANDOM} > /id\n` }
    const ids: (string | undefined)[] = []
    const build = async (query = {}) => {
      const { done } = await daemon.build(files, { query: { reference: 'app:1', ...query } })
      ids.push(done?.image.id)
      return done?.cached
    }
    expect(await build()).toBe(false)
    now += 999_000
    expect(await build()).toBe(true)
    expect(await build({ max_age_seconds: 2000 })).toBe(true)
    expect(await build({ max_age_seconds: 10 })).toBe(false)
    now += 1_001_000
    expect(await build({ max_age_seconds: 2000 })).toBe(true)
    expect(await build()).toBe(false)
    expect(new Set(ids).size).toBe(3)
  })

  it('with an overlay reuses the project image, and builds only the overlay if only the overlay changes', async () => {
    const daemon = await daemonWithBase()
    const build = (overlay: string) =>
      daemon.build(
        { Dockerfile: `FROM small:1\nRUN cat ${RANDOM} > /id; true\n`, '.sandglass.overlay': overlay },
        { query: { reference: 'app:1', overlay: '.sandglass.overlay' } },
      )
    const first = await build('ENV TOOLS=1\nRUN echo tools > /tools\n')
    expect(first.steps.map(({ steps }) => steps)).toEqual([2, 2, 3, 3, 3])
    const id = await daemon.run('app:1', 'oci', 'cat /id')
    expect((await build('ENV TOOLS=1\nRUN echo tools > /tools\n')).done).toMatchObject({ cached: true })
    const other = await build('RUN echo other > /tools\n')
    expect(other.steps.map(({ instruction }) => instruction.split(' ')[0])).toEqual(['FROM', 'RUN'])
    expect(await daemon.run('app:1', 'oci', 'cat /tools /id')).toBe(`other\n${id}`)
    expect((await build('FROM small:1\n')).error).toMatchObject({
      code: 'INVALID_REQUEST',
      message: 'the overlay line 1 has FROM, but an overlay starts from the project image',
    })
  })

  it('pulls its base from a registry, and pulls it again after the maximum age', async () => {
    let now = Date.now()
    const registry = await new FakeRegistry().listen()
    registry.push('base', '1', await smallImage({ name: 'version', content: 'one' }))
    const config = await configFile(`registries: { '${registry.host}': { plain_http: true } }\n`)
    const daemon = await buildDaemon(engine, { now: () => now, flags: { config: [config] } })
    const files = { Dockerfile: `FROM ${registry.host}/base:1\nRUN cat /version\n` }
    const build = () => daemon.build(files, { query: { max_age_seconds: 60 } })
    expect((await build()).output).toBe('one\n')
    registry.push('base', '1', await smallImage({ name: 'version', content: 'two' }))
    expect((await build()).done).toMatchObject({ cached: true })
    now += 61_000
    expect((await build()).output).toBe('two\n')
    await registry.close()
    now += 61_000
    const alone = await build()
    expect(alone.output).toMatch(/^pull of \S+\/base:1 failed, using the stored image: registry .*\ntwo\n$/)
    expect(alone.done).toMatchObject({ cached: false })
  })

  it('leaves a limited number of cached steps in the engine, and no files in the data folder', async () => {
    const daemon = await daemonWithBase()
    const [some] = await client.listImages()
    // Left by a daemon that was killed during a build.
    await client
      .getImage(some?.Id ?? '')
      .tag({ repo: `sandglass.invalid/${ownerOf(daemon.dataDir)}/sandglass-build-dead`, tag: '0' })
    for (let i = 0; i < 9; i++) await daemon.build({ Dockerfile: `FROM small:1\nLABEL n=${i}\n` })
    const images = await client.listImages({ all: true })
    expect(images.flatMap(({ RepoTags }) => RepoTags ?? []).filter(tag => tag.startsWith('sandglass.invalid'))).toEqual([])
    expect(await client.listContainers({ all: true })).toEqual([])
    expect(await readdir(join(daemon.dataDir, 'images', 'import'))).toEqual([])
    const before = images.length
    for (let i = 9; i < 11; i++) await daemon.build({ Dockerfile: `FROM small:1\nLABEL n=${i}\n` })
    expect((await client.listImages({ all: true })).length).toBe(before)
  })
})

describe('the images and arguments of a build', () => {
  it('are checked against allowed_images before the first pull', async () => {
    const daemon = await buildDaemon(engine, { flags: { 'allowed-images': ['small:1,app:1'] } })
    await daemon.importImage(base, 'small:1')
    const build = async (dockerfile: string, reference = 'app:1') =>
      (await daemon.build({ Dockerfile: dockerfile, overlay: 'ENV A=1\n' }, { query: { reference, overlay: 'overlay' } })).error
    expect(await build('FROM small:1\n')).toBeUndefined()
    expect(await build('FROM small:1\n', 'other:1')).toMatchObject({ code: 'IMAGE_NOT_ALLOWED', detail: { image: 'other:1' } })
    for (const dockerfile of ['FROM busybox\n', 'FROM small:1\nCOPY --from=busybox /x /x\n', 'ARG B=busybox\nFROM $B\n'])
      expect(await build(dockerfile)).toMatchObject({ code: 'IMAGE_NOT_ALLOWED', detail: { image: 'busybox' } })
  })

  it('come from the store: an image of the engine is not found', async () => {
    const unreachable = await configFile("registries: { '127.0.0.1:1': { plain_http: true } }\n")
    const daemon = await daemonWithBase({ flags: { config: [unreachable] } })
    await client.getImage((await client.listImages())[0]?.Id ?? '').tag({ repo: '127.0.0.1:1/mine', tag: '1' })
    const { error } = await daemon.build({ Dockerfile: 'FROM 127.0.0.1:1/mine:1\n' })
    expect(error?.code).toBe('REGISTRY_FAILED')
    await client.getImage('127.0.0.1:1/mine:1').remove()
  })

  it('are hidden in output, errors, images and logs if they look like secrets', async () => {
    const daemon = await daemonWithBase()
    const SECRET = 'hunter2-hunter2'
    const args = { NPM_TOKEN: SECRET, PLAIN: 'plain-value' }
    const files = { Dockerfile: 'FROM small:1\nARG NPM_TOKEN\nARG PLAIN\nRUN echo "with $NPM_TOKEN $PLAIN"\n' }
    const built = await daemon.build(files, { args, query: { reference: 'app:1' } })
    expect(built.output).toBe('with *** plain-value\n')
    const failed = await daemon.build({ Dockerfile: `${files.Dockerfile}RUN echo $NPM_TOKEN; exit 1\n` }, { args })
    expect(failed.error?.detail.output).toEqual(['***'])
    const config = await readFile(daemon.context.images.blobs.path(built.done?.image.id ?? ''), 'utf8')
    expect(config).toContain('NPM_TOKEN=***')
    const rows = await daemon.context.store.selectFrom('images').selectAll().execute()
    const everything = JSON.stringify([built, failed, config, rows, daemon.logged])
    expect(everything).not.toContain(SECRET)
    expect(config).not.toContain('plain-value')
    const lines = await daemon.build(
      { Dockerfile: 'FROM small:1\nARG DEPLOYKEY\nRUN echo "$DEPLOYKEY"; exit 1\n' },
      { args: { DEPLOYKEY: 'first-line\nsecond-line' } },
    )
    expect(JSON.stringify(lines)).toMatch(/^(?!.*(first|second)-line).*\*\*\*/)
    const histories = await Promise.all((await client.listImages({ all: true })).map(({ Id }) => client.getImage(Id).history()))
    expect(JSON.stringify(histories)).not.toContain(SECRET)
  })
})

describe('two concurrent requests for one build', () => {
  it('share one build and get the same events', async () => {
    const daemon = await daemonWithBase()
    const files = { Dockerfile: `FROM small:1\nRUN echo begun; sleep 2; cat ${RANDOM}\n` }
    const [one, two] = await Promise.all([
      daemon.build(files, { query: { reference: 'a:1' } }),
      daemon.build(files, { query: { reference: 'b:1' } }),
    ])
    expect(one.done?.image.id).toBe(two.done?.image.id)
    expect(one.output).toMatch(/begun\n.{36}\n/)
    expect(two.output).toBe(one.output)
    expect((await daemon.build(files)).done?.image.references).toEqual(['docker.io/library/a:1', 'docker.io/library/b:1'])
  })

  it('continue if one of them leaves, and the build is aborted when both have left', async () => {
    const daemon = await daemonWithBase()
    const first = new AbortController()
    const second = new AbortController()
    const files = { Dockerfile: 'FROM small:1\nRUN sleep 1000\n' }
    const reads = async (signal: AbortSignal) => {
      const reply = (await daemon.stream(files, { signal })).body?.getReader()
      expect(new TextDecoder().decode((await reply?.read())?.value)).toContain('event: step')
    }
    await reads(first.signal)
    await until(async () => (await client.listContainers()).length === 1)
    await reads(second.signal)
    first.abort()
    await daemon.call('GET', '/v1/images')
    expect([...daemon.context.images.builds.values()].map(work => work.isAborted)).toEqual([false])
    expect(await client.listContainers()).toHaveLength(1)
    second.abort()
    await until(async () => (await client.listContainers({ all: true })).length === 0)
    await until(async () => (await readdir(join(daemon.dataDir, 'images', 'import'))).length === 0)
  })
})
