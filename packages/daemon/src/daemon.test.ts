import { describe, expect, it } from 'vitest'
import { daemonFixture } from './testing/daemon.fixture.ts'

describe('a session over HTTP', () => {
  it('is created, used and ended', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create({ env: { GREETING: 'hello' } })
    const first = await daemon.call('POST', `/v1/sessions/${id}/exec`, {
      cmd: 'mkdir -p d && cd d && export X=1 && echo $GREETING',
    })
    expect(first.body).toMatchObject({ exit_code: 0, output: 'hello\n', timed_out: false })
    const second = await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'echo $X; basename $PWD; false' })
    expect(second.body).toMatchObject({ exit_code: 1, output: '1\nd\n' })
    const gone = await daemon.call('DELETE', `/v1/sessions/${id}`)
    expect(gone.body).toMatchObject({ status: 'terminated', reason: 'requested' })
    expect((await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'true' })).status).toBe(409)
  })
})
