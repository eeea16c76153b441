import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import Docker from 'dockerode'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { testEngine } from '../../backends/docker/engine/engine.fixture.ts'

import { type BuildDaemon, type BuildDaemonOptions, buildDaemon, smallImage } from '../testing/build-daemon.fixture.ts'

// Each build starts containers, one after the other.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const engine = await testEngine()
const client = new Docker({ socketPath: engine.endpoint.replace('unix://', '') })
afterAll(() => engine.stop())

const base = await smallImage()

async function daemonWithBase(options: BuildDaemonOptions = {}): Promise<BuildDaemon> {
  const daemon = await buildDaemon(engine, options)
  await daemon.importImage(base, 'small:1')
  return daemon
}

describe('a build that fails', () => {
  it('reports the step, its instruction, its exit code and its last lines of output', async () => {
    const daemon = await daemonWithBase()
    const lines = Array.from({ length: 40 }, (_, i) => `echo line-${i}`).join('; ')
    const failed = await daemon.build(
      { Dockerfile: `FROM small:1\nRUN true\nRUN ${lines}; echo oops >&2; exit 3\nRUN true\n` },
      { query: { reference: 'app:1' } },
    )
    expect(failed.error).toMatchObject({
      code: 'IMAGE_BUILD_FAILED',
      detail: { image: 'app:1', step: 3, steps: 4, exit_code: 3 },
    })
    expect(failed.error?.message).toMatch(/^image app:1 was not built: step 3 of 4 \(RUN echo line-0.*\) ended with exit code 3$/)
    expect(failed.error?.detail.output).toHaveLength(20)
    expect(failed.error?.detail.output).toContain('line-39')
    expect((await daemon.call('GET', '/v1/images/app:1')).status).toBe(404)
    expect(await client.listContainers({ all: true })).toEqual([])
  })

  it('reports what is wrong with the Dockerfile', async () => {
    const daemon = await daemonWithBase()
    const wrong: [dockerfile: string, code: string, text: string][] = [
      ['FROM small:1\nCOPY missing /x\n', 'IMAGE_BUILD_FAILED', 'step 2 of 2 (COPY missing /x) failed'],
      ['FROM small:1\nFROB x\n', 'IMAGE_BUILD_FAILED', 'FROB'],
      ['FROM small:1\nRUN --mount=type=cache,target=/x true\n', 'IMAGE_BUILD_FAILED', 'BuildKit'],
      ['RUN true\n', 'INVALID_REQUEST', 'Dockerfile line 1 has RUN'],
    ]
    for (const [dockerfile, code, text] of wrong)
      expect((await daemon.build({ Dockerfile: dockerfile })).error).toMatchObject({
        code,
        message: expect.stringContaining(text),
      })
    const { error } = await daemon.build({ other: 'FROM small:1\n' })
    expect(error).toMatchObject({
      code: 'FILE_NOT_FOUND',
      message: 'no such file or directory in the build context: Dockerfile',
    })
  })

  it('because of its timeout leaves no container', async () => {
    // Long enough for the engine of a busy machine to come to the second step.
    const daemon = await daemonWithBase({ images: { build_timeout_seconds: 25 } })
    const { error } = await daemon.build({ Dockerfile: 'FROM small:1\nRUN echo begun; sleep 1000\n' })
    expect(error).toMatchObject({
      code: 'IMAGE_BUILD_FAILED',
      message: expect.stringContaining('step 2 of 2 (RUN echo begun; sleep 1000) failed: the build took longer than 25 seconds'),
    })
    expect(await client.listContainers({ all: true })).toEqual([])
    expect(await readdir(join(daemon.dataDir, 'images', 'import'))).toEqual([])
  })

  it('on an engine that does not answer names what to install', async () => {
    const daemon = await buildDaemon({ endpoint: 'unix:///nonexistent/docker.sock' })
    const { status, error } = await daemon.build({ Dockerfile: 'FROM small:1\n' }, { query: { builder: 'docker' } })
    expect(status).toBe(503)
    expect(error).toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: expect.stringMatching(/apt-get install docker.io|start the engine/),
    })
  })
})
