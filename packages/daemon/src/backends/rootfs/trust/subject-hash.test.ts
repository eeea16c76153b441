import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { rootCertificates } from 'node:tls'
import { expect, it } from 'vitest'
import { testAuthority } from './authority.fixture.ts'
import { certificatesIn } from './der.ts'
import { subjectHash } from './subject-hash.ts'

const ofOpenssl = (pem: string) => execFileSync('openssl', ['x509', '-hash', '-noout'], { input: pem, encoding: 'utf8' }).trim()

it.each([
  '/CN=Sandglass',
  '/C=DE/O=Sandglass/OU=Egress/CN=Sandglass CA',
  '/O=  Several   spaces \t and TABS  /CN=MiXeD Case 0123',
  `/O=${'A long name of an organization '.repeat(2)}/CN=${'long '.repeat(12)}`,
  '/O=Größe\u00a0ÄÖÜ/CN=Ünicode',
])('the hash of the subject %s is that of openssl', subject => {
  const { certificate, der } = testAuthority(subject)
  expect(subjectHash(der)).toBe(ofOpenssl(certificate))
})

it('the hashes of public roots are those of openssl', () => {
  for (const pem of rootCertificates.slice(0, 20)) expect(subjectHash(new X509Certificate(pem).raw)).toBe(ofOpenssl(pem))
})

it.each([
  ['nothing', Buffer.alloc(0)],
  ['a length beyond the end', Buffer.from([0x30, 0x84, 0xff, 0xff, 0xff, 0xff])],
  ['another structure', Buffer.from([0x30, 0x03, 0x02, 0x01, 0x01])],
])('%s in place of a certificate is refused', (_, bytes) => {
  expect(() => subjectHash(bytes)).toThrow('no valid certificate')
})

it('certificates are found between other text, and what is not a certificate is left out', () => {
  const [one = '', two = ''] = rootCertificates
  const broken = one.replace('MII', 'MIJ')
  const pem = `# first\n${one}\n${broken}\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\r\n${two.replaceAll('\n', '\r\n')}${one}`
  expect(certificatesIn(pem)).toEqual([one, two].map(each => new X509Certificate(each).raw))
  expect(certificatesIn('no certificates')).toEqual([])
})
