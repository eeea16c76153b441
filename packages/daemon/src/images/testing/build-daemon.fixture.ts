// For tests: a daemon with the oci backend and, on a private engine, the docker backend; a small base image, and a function that builds.
import { readFile } from 'node:fs/promises'
import type { BuildDone, BuildStep, WireError } from '@sandglass/contract'
import { openDocker } from '../../backends/docker/backend.ts'
import type { TestEngine } from '../../backends/docker/engine/engine.fixture.ts'
import { openOci } from '../../backends/oci/backend.ts'
import { RUNNER_PATH } from '../../backends/plain-child/plain-child.fixture.ts'
import { daemonFixture, type FixtureOptions, type TestDaemon, temporaryFolder } from '../../testing/daemon.fixture.ts'
import { type Entry, imageOf, layerOf, savedArchive, type TestImage, tarOf } from './image.fixture.ts'

export type Files = Readonly<Record<string, string>>
export type BuildOptions = {
  query?: Record<string, string | number | boolean>
  args?: Record<string, string>
  signal?: AbortSignal
}

export type BuildOutcome = {
  status: number
  steps: BuildStep[]
  output: string
  done: BuildDone | undefined
  error: (WireError & { detail: { output?: string[] } }) | undefined
}

export type BuildDaemon = TestDaemon & {
  build(files: Files | readonly Entry[], options?: BuildOptions): Promise<BuildOutcome>
  /** The response of a build, not yet read. */
  stream(files: Files, options?: BuildOptions): Promise<Response>
  importImage(image: TestImage, name: string): Promise<void>
  /** Runs a command in a new session and returns its output. */
  run(image: string, backend: string, command: string): Promise<string>
}

export type BuildDaemonOptions = FixtureOptions & { images?: Record<string, string | number> }

const APPLETS = ['sh', 'cat', 'chmod', 'echo', 'env', 'id', 'ls', 'mkdir', 'printf', 'sleep', 'stat', 'test', 'true', 'wc']

/** busybox with a shell and the programs that the tests use. */
export async function smallImage(...more: Entry[]): Promise<TestImage> {
  return imageOf([
    await layerOf([
      { name: 'usr/bin/busybox', mode: 0o755, content: await readFile('/usr/bin/busybox') },
      { name: 'bin', type: 'symlink', linkname: 'usr/bin' },
      ...APPLETS.map(name => ({ name: `usr/bin/${name}`, type: 'symlink' as const, linkname: 'busybox' })),
      { name: 'etc/passwd', content: 'root:x:0:0:root:/root:/bin/sh\nsandbox:x:1000:1000::/workspace:/bin/sh\n' },
      { name: 'etc/group', content: 'root:x:0:\nsandbox:x:1000:\n' },
      { name: 'tmp', type: 'directory', mode: 0o1777 },
      ...more,
    ]),
  ])
}

/** Without an engine, builds run in sandboxes. */
export async function buildDaemon(
  engine: Pick<TestEngine, 'endpoint'> | null,
  options: BuildDaemonOptions = {},
): Promise<BuildDaemon> {
  const dataDir = options.dataDir ?? (await temporaryFolder())
  const settings = { build_network: 'none', ...options.images }
  const flags = Object.entries(settings).map(([key, value]) => [`images-${key.replaceAll('_', '-')}`, [String(value)]] as const)
  const oci = await openOci({ dataDir, runtime: 'auto', runnerPath: RUNNER_PATH })
  const daemon = await daemonFixture({
    ...options,
    dataDir,
    backends: () => [oci, ...(engine ? [openDocker({ dataDir, runnerPath: RUNNER_PATH, endpoint: engine.endpoint })] : [])],
    flags: { 'backends-docker-allow-unenforced': ['disk'], ...Object.fromEntries(flags), ...options.flags },
  })
  const stream = async (files: Files | readonly Entry[], { query = {}, args, signal }: BuildOptions = {}) => {
    const search = new URLSearchParams(Object.entries(query).map(([key, value]) => [key, String(value)]))
    return await daemon.fetch(`/v1/images/build?${search}`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-tar', ...(args ? { 'x-build-args': JSON.stringify(args) } : {}) },
      body: new Uint8Array(await tarOf(entriesOf(files))),
      ...(signal ? { signal } : {}),
    })
  }
  return {
    ...daemon,
    stream,
    build: async (files, build) => outcome(await stream(files, build)),
    async importImage(image, name) {
      const body = new Uint8Array(await savedArchive([{ image, tags: [name] }]))
      const reply = await daemon.fetch('/v1/images/import', { method: 'POST', body })
      if (!(await reply.text()).includes('event: done')) throw new Error(`import of ${name} failed`)
    },
    async run(image, backend, command) {
      const { id } = await daemon.create({ image, backend })
      const reply = await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: command })
      await daemon.call('DELETE', `/v1/sessions/${id}`)
      return (reply.body as { output: string }).output.trimEnd()
    },
  }
}

const entriesOf = (files: Files | readonly Entry[]): readonly Entry[] =>
  Array.isArray(files) ? files : Object.entries(files as Files).map(([name, content]) => ({ name, content }))

async function outcome(response: Response): Promise<BuildOutcome> {
  const text = await response.text()
  if (!response.ok) return { status: response.status, steps: [], output: '', done: undefined, error: JSON.parse(text).error }
  const events = [...text.matchAll(/^event: (\w+)\ndata: (.*)$/gm)].map(([, event = '', data = '']) => ({
    event,
    data: JSON.parse(data),
  }))
  const of = (name: string) => events.filter(({ event }) => event === name).map(({ data }) => data)
  return {
    status: response.status,
    steps: of('step'),
    output: of('output')
      .map(({ text }) => text)
      .join(''),
    done: of('done')[0],
    error: of('error')[0],
  }
}
