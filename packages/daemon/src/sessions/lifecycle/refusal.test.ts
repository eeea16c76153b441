import { SandglassError } from '@sandglass/contract'
import { expect, it } from 'vitest'
import type { Backend } from '../../backends/backend.ts'
import { daemonFixture, plainChild } from '../../testing/daemon.fixture.ts'

it('a requirement that no machine of the host can meet is refused before a session is stored, started or not', async () => {
  const daemon = await daemonFixture({
    backends: folder => {
      const backend: Backend = plainChild(folder)
      backend.checkRequirements = async ({ readonlyRootfs }) => {
        if (!readonlyRootfs) throw new SandglassError('UNSUPPORTED', { what: 'a writable root filesystem needs root' })
      }
      return [backend]
    },
  })
  for (const start of [true, false]) {
    const reply = await daemon.call('POST', '/v1/sessions', { name: 'demo', readonly_rootfs: false, start })
    expect(reply.body).toMatchObject({ error: { code: 'UNSUPPORTED', message: expect.stringContaining('needs root') } })
  }
  expect(daemon.logged.filter(({ msg }) => msg === 'session changed state')).toEqual([])
  expect((await daemon.call('POST', '/v1/sessions', { name: 'demo' })).status).toBe(201)
})

it('a requirement that the host can never meet is reported before a limit that it cannot enforce', async () => {
  const daemon = await daemonFixture({
    flags: { 'backends-oci-allow-unenforced': [] },
    backends: folder => {
      const backend: Backend = plainChild(folder)
      const probe = backend.probe.bind(backend)
      backend.probe = async () => ({ ...(await probe()), unenforceable: ['memory'] })
      backend.checkRequirements = async ({ runtime }) => {
        if (runtime !== null) throw new SandglassError('UNSUPPORTED', { what: 'runsc as an ordinary user' })
      }
      return [backend]
    },
  })
  const codeOf = async (spec: object) =>
    ((await daemon.call('POST', '/v1/sessions', spec)).body as { error: { code: string } }).error.code
  expect([await codeOf({ runtime: 'gvisor' }), await codeOf({})]).toEqual(['UNSUPPORTED', 'LIMIT_UNENFORCEABLE'])
})

it.each(['UNSUPPORTED', 'HOST_FULL'] as const)(
  'a create that the backend refuses with %s leaves no session behind',
  async code => {
    const daemon = await daemonFixture({
      backends: folder => {
        const backend = plainChild(folder)
        backend.start = () => Promise.reject(new SandglassError(code, { what: 'a writable root filesystem needs root' }))
        return [backend]
      },
    })
    const reply = await daemon.call('POST', '/v1/sessions', { name: 'demo' })
    expect(reply.body).toMatchObject({ error: { code, message: expect.stringContaining('needs root') } })
    expect((await daemon.call('GET', '/v1/sessions?all=true')).body).toMatchObject({ items: [] })
  },
)
