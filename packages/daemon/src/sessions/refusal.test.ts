import { SandglassError } from '@sandglass/contract'
import { expect, it } from 'vitest'
import { daemonFixture, plainChild } from '../daemon.fixture.ts'

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
