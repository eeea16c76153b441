import { X509Certificate } from 'node:crypto'
import type { CertificateAuthority } from '@sandglass/contract'
import { expect, it } from 'vitest'
import type { TestDaemon } from '../../testing/daemon.fixture.ts'
import { API, egressDaemonFixture } from '../../testing/egress-daemon.fixture.ts'

const ca = async (daemon: TestDaemon, method = 'GET', path = '') =>
  (await daemon.call(method, `/v1/ca${path}`)).body as CertificateAuthority

it('a rotated authority is for sessions that start later; those that run keep theirs', async () => {
  const { daemon, send } = await egressDaemonFixture()
  const observe = { network: 'allowlist', policy_mode: 'observe' }
  const before = await ca(daemon)
  expect(new X509Certificate(before.certificate).fingerprint256.replaceAll(':', '').toLowerCase()).toBe(before.fingerprint)
  const old = await daemon.create(observe)
  const after = await ca(daemon, 'POST', '/rotate')
  expect(after.fingerprint).not.toBe(before.fingerprint)
  expect(await ca(daemon)).toEqual(after)
  const young = await daemon.create(observe)
  // The program in the sandbox accepts certificates of one authority alone.
  const trusts = async (id: string, { certificate }: CertificateAuthority) => {
    const cmd = `echo ${btoa(certificate)} | base64 -d > ca.pem; curl -s --cacert ca.pem -o /dev/null -w '%{http_code}' -x http://127.0.0.53:3128 https://${API}/`
    const { body } = await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd })
    return (body as { output: string }).output
  }
  expect([await trusts(old.id, before), await trusts(old.id, after)]).toEqual(['200', '000'])
  expect([await trusts(young.id, before), await trusts(young.id, after)]).toEqual(['000', '200'])
  await ca(daemon, 'POST', '/rotate')
  await ca(daemon, 'POST', '/rotate')
  expect(await trusts(old.id, before)).toBe('200')
  await daemon.call('POST', `/v1/sessions/${old.id}/terminate`)
  await ca(daemon, 'POST', '/rotate')
  expect((await daemon.context.egress.authorities.all()).map(({ fingerprint }) => fingerprint)).not.toContain(before.fingerprint)
  expect(await send(young.id, `https://${API}/`)).toBe('200')
})
