import { fileURLToPath } from 'node:url'
import { SandglassError } from '@sandglass/contract'
import { expect, it } from 'vitest'
import type { Backend } from '../../backends/backend.ts'
import { openOci } from '../../backends/oci/backend.ts'
import { daemonFixture, plainChild, temporaryFolder } from '../../testing/daemon.fixture.ts'

const runnerPath = fileURLToPath(new URL('../../../../../runner/bin/runner', import.meta.url))

/** The oci backend of this machine, and one after it that refuses nothing. */
async function twoBackends(flags: Record<string, string[]>) {
  const oci = await openOci({ dataDir: await temporaryFolder(), runtime: 'auto', runnerPath })
  return await daemonFixture({ flags, backends: folder => [oci, plainChild(folder)] })
}

it('auto skips a backend that does not meet the requirements, and takes the next one that does', async () => {
  const daemon = await twoBackends({ 'allow-bridge': ['true'] })
  const bridged = await daemon.call('POST', '/v1/sessions', { name: 'bridged', network: 'bridge', start: false })
  expect(bridged.body).toMatchObject({ backend: 'plain-child', network: 'bridge' })
  const plain = await daemon.call('POST', '/v1/sessions', { name: 'plain', start: false })
  expect(plain.body).toMatchObject({ backend: 'oci', network: 'none', runtime: null, mounts: [], nested_virt: false })
})

it('a named backend is never replaced by another', async () => {
  const daemon = await twoBackends({ 'allow-bridge': ['true'] })
  for (const requirement of [{ network: 'bridge' }, { nested_virt: true }, { runtime: 'no-such' }]) {
    const refused = await daemon.call('POST', '/v1/sessions', { backend: 'oci', ...requirement })
    expect(refused).toMatchObject({ body: { error: { code: 'UNSUPPORTED' } } })
  }
  expect((await daemon.call('GET', '/v1/sessions?all=true')).body).toMatchObject({ items: [] })
})

it('when every backend refuses, auto shows each reason and the hint that helps', async () => {
  const oci = await openOci({ dataDir: await temporaryFolder(), runtime: 'auto', runnerPath })
  const daemon = await daemonFixture({
    backends: folder => {
      const last: Backend = plainChild(folder)
      last.checkRequirements = () =>
        Promise.reject(new SandglassError('UNSUPPORTED', { what: 'there is no KVM', next: 'leave it out' }))
      return [oci, last]
    },
  })
  expect((await daemon.call('POST', '/v1/sessions', { runtime: 'no-such' })).body).toMatchObject({
    error: {
      message: expect.stringMatching(/the OCI runtime "no-such": there are [^;]*$/),
      hint: expect.stringContaining('backends.oci.runtimes'),
    },
  })
  const refused = await daemon.call('POST', '/v1/sessions', { nested_virt: true })
  expect(refused.body).toMatchObject({
    error: {
      code: 'UNSUPPORTED',
      message: 'not supported here: nested virtualisation with oci; there is no KVM',
      hint: 'leave it out',
    },
  })
})

it('a reason that all backends share is shown once', async () => {
  const daemon = await daemonFixture({
    backends: folder =>
      ['one', 'two'].map(name => {
        const backend: Backend = plainChild(folder)
        backend.checkRequirements = () =>
          Promise.reject(new SandglassError('UNSUPPORTED', { what: 'the folder is root’s', next: 'chown it' }))
        return Object.defineProperty(backend, 'name', { value: name })
      }),
  })
  expect((await daemon.call('POST', '/v1/sessions', {})).body).toMatchObject({
    error: { message: 'not supported here: the folder is root’s', hint: 'chown it' },
  })
})

it('a bridge or mount that the configuration does not allow is refused on every backend', async () => {
  const daemon = await twoBackends({})
  for (const requirement of [{ network: 'bridge' }, { mounts: [{ source: '/srv', target: '/mnt/x' }] }]) {
    const refused = await daemon.call('POST', '/v1/sessions', requirement)
    expect(refused.body).toMatchObject({ error: { code: 'UNSUPPORTED' } })
  }
})

it('allow_unenforced of one backend does not apply to another', async () => {
  const named = (name: string) => (folder: string) => [Object.defineProperty(plainChild(folder), 'name', { value: name })]
  const unknown = await daemonFixture({ backends: named('unknown') })
  expect((await unknown.call('POST', '/v1/sessions', {})).body).toMatchObject({
    error: { code: 'LIMIT_UNENFORCEABLE', detail: { backend: 'unknown', limits: ['cpu', 'memory', 'pids', 'disk'] } },
  })
  const oci = await daemonFixture({ backends: named('oci') })
  expect((await oci.call('POST', '/v1/sessions', {})).status).toBe(201)
})
