import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../../../testing/daemon.fixture.ts'
import { findInLayers } from '../find-in-layers.ts'
import { type Entry, imageOf } from '../image.fixture.ts'
import { testAuthority } from './authority.fixture.ts'
import { certificatesIn } from './der.ts'
import { trustFiles, trustPaths } from './trust-files.ts'

const ca = testAuthority()
const [OWN_ROOT = '', OTHER_ROOT = ''] = rootCertificates
const hash = execFileSync('openssl', ['x509', '-hash', '-noout'], { input: ca.certificate, encoding: 'utf8' }).trim()
const ALWAYS = [
  '/etc/chromium/policies/managed/sandglass.json',
  '/etc/gitconfig',
  '/etc/opt/chrome/policies/managed/sandglass.json',
  '/etc/opt/chrome_for_testing/policies/managed/sandglass.json',
  '/etc/ssl/sandglass/bundle.pem',
  '/etc/ssl/sandglass/ca.pem',
]

const file = (name: string, content: string | Buffer = ''): Entry => ({ name, content })
const link = (name: string, linkname: string): Entry => ({ name, linkname, type: 'symlink' })
const folder = (name: string): Entry => ({ name, type: 'directory' })

async function filesFor(entries: readonly Entry[], env: Record<string, string> = {}, trust = ca) {
  const image = await imageOf(await temporaryFolder(), [{ entries }], env)
  return trustFiles(trust, await findInLayers(image, trustPaths(env), AbortSignal.timeout(20_000)), env)
}

const namesOf = (files: ReadonlyMap<string, Buffer>) => [...files.keys()].filter(path => !ALWAYS.includes(path)).toSorted()
const derOf = (pem: string) => new X509Certificate(pem).raw
const certificates = (files: ReadonlyMap<string, Buffer>, path: string) =>
  certificatesIn(files.get(path)?.toString('latin1') ?? '')

it('the bundle of the image is kept, and the certificate authority is added to it', async () => {
  const files = await filesFor([file('etc/ssl/certs/ca-certificates.crt', OWN_ROOT), folder('usr/local/share')])
  const added = ['/usr/local/share/ca-certificates/sandglass.crt']
  expect(namesOf(files)).toEqual([`/etc/ssl/certs/${hash}.0`, '/etc/ssl/certs/ca-certificates.crt', ...added])
  for (const path of ['/etc/ssl/certs/ca-certificates.crt', '/etc/ssl/sandglass/bundle.pem'])
    expect(certificates(files, path)).toEqual([derOf(OWN_ROOT), ca.der])
  for (const path of ['/etc/ssl/sandglass/ca.pem', `/etc/ssl/certs/${hash}.0`, ...added])
    expect(certificates(files, path)).toEqual([ca.der])
})

it.each([
  ['no files', []],
  ['a link in place of /etc', [link('etc', 'usr/etc'), file('usr/etc/ssl/certs/ca-certificates.crt', OWN_ROOT)]],
  ['a link that leads nowhere', [link('etc/ssl/certs/ca-certificates.crt', '/missing')]],
])('an image with %s gets public roots and the certificate authority', async (_, entries) => {
  const files = await filesFor(entries)
  expect(namesOf(files)).toEqual([`/etc/ssl/cert.pem`, `/etc/ssl/certs/${hash}.0`, '/etc/ssl/certs/ca-certificates.crt'])
  for (const path of ['/etc/ssl/cert.pem', '/etc/ssl/certs/ca-certificates.crt', '/etc/ssl/sandglass/bundle.pem'])
    expect(certificates(files, path)).toEqual([...rootCertificates.map(derOf), ca.der])
})

it('an empty bundle gets the certificates of another one', async () => {
  const files = await filesFor([file('etc/ssl/cert.pem', ''), file('etc/ssl/ca-bundle.pem', OWN_ROOT)])
  expect(certificates(files, '/etc/ssl/cert.pem')).toEqual([derOf(OWN_ROOT), ca.der])
})

it('links are followed: the files are where the links of Fedora and openSUSE lead to', async () => {
  const fedora = await filesFor([
    link('etc/ssl/certs', '../pki/tls/certs'),
    link('etc/pki/tls/certs/ca-bundle.crt', '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem'),
    link('etc/pki/tls/cert.pem', 'certs/ca-bundle.crt'),
    file('etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem', OWN_ROOT),
    folder('etc/pki/ca-trust/source/anchors'),
    link('etc/pki/java/cacerts', '../ca-trust/extracted/java/cacerts'),
    file('etc/pki/ca-trust/extracted/java/cacerts'),
    link('usr/lib/jvm/java-21/lib/security/cacerts', '../../../../../../etc/pki/java/cacerts'),
    link('usr/lib/jvm/java', '/etc/alternatives/java'),
    link('etc/alternatives/java', '/usr/lib/jvm/java-21'),
  ])
  expect(namesOf(fedora)).toEqual([
    '/etc/pki/ca-trust/extracted/java/cacerts',
    '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
    '/etc/pki/ca-trust/source/anchors/sandglass.crt',
    `/etc/pki/tls/certs/${hash}.0`,
  ])
  const suse = await filesFor([
    link('etc/ssl/certs', '/var/lib/ca-certificates/pem'),
    link('etc/ssl/ca-bundle.pem', '/var/lib/ca-certificates/ca-bundle.pem'),
    file('var/lib/ca-certificates/ca-bundle.pem', OWN_ROOT),
    folder('var/lib/ca-certificates/pem'),
    folder('etc/pki/trust/anchors'),
  ])
  expect(namesOf(suse)).toEqual([
    '/etc/pki/trust/anchors/sandglass.crt',
    '/var/lib/ca-certificates/ca-bundle.pem',
    `/var/lib/ca-certificates/pem/${hash}.0`,
  ])
})

it('every keystore of a Java is replaced, also that of JAVA_HOME', async () => {
  const homes = ['usr/lib/jvm/java-17', 'usr/local/openjdk-11', 'opt/java/openjdk', 'opt/jdk', 'opt/deep/inside/jdk']
  const entries = [
    file('etc/ssl/certs/ca-certificates.crt', OWN_ROOT),
    ...homes.map(home => file(`${home}/lib/security/cacerts`)),
    file('usr/lib/jvm/java-8/jre/lib/security/cacerts'),
    file('opt/tool/lib/security/other'),
  ]
  const files = await filesFor(entries, { JAVA_HOME: '/opt/deep/inside/jdk' })
  const keystores = [...homes, 'usr/lib/jvm/java-8/jre'].map(home => `/${home}/lib/security/cacerts`)
  expect(namesOf(files).filter(path => path.endsWith('cacerts'))).toEqual(keystores.toSorted())
  const content = files.get('/opt/jdk/lib/security/cacerts')
  for (const der of [ca.der, derOf(OWN_ROOT)]) expect(content?.includes(der)).toBe(true)
  expect(content?.includes(derOf(OTHER_ROOT))).toBe(false)
})

it('the certificate authority is added to the files that the environment of an image names', async () => {
  const env = {
    SSL_CERT_FILE: '/opt/conda/ssl/cacert.pem',
    CURL_CA_BUNDLE: 'relative',
    PIP_CERT: '/etc/../etc/x',
    AWS_CA_BUNDLE: '/*/x',
  }
  const entries = [file('opt/conda/ssl/cacert.pem', OTHER_ROOT), file('etc/ssl/certs/ca-certificates.crt', OWN_ROOT)]
  const files = await filesFor(entries, env)
  expect(namesOf(files)).toEqual([`/etc/ssl/certs/${hash}.0`, '/etc/ssl/certs/ca-certificates.crt', '/opt/conda/ssl/cacert.pem'])
  expect(certificates(files, '/opt/conda/ssl/cacert.pem')).toEqual([derOf(OTHER_ROOT), ca.der])
})

it('nothing is put into folders that only their owner may enter', async () => {
  const env = { JAVA_HOME: '/root/java', SSL_CERT_FILE: '/home/user/cert.pem' }
  const entries = [
    file('root/java/lib/security/cacerts'),
    file('home/user/cert.pem', OWN_ROOT),
    link('opt/j', '/root/java'),
    folder('etc'),
  ]
  const files = await filesFor(entries, env)
  expect(namesOf(files).filter(path => !path.startsWith('/etc/'))).toEqual([])
})

it('git uses https for the ssh remotes of well-known hosts, unless the image has its own settings', async () => {
  expect((await filesFor([file('etc/gitconfig', '[user]')])).has('/etc/gitconfig')).toBe(false)
  const path = join(await temporaryFolder(), 'gitconfig')
  await writeFile(path, (await filesFor([])).get('/etc/gitconfig') ?? '')
  const remote = (url: string) => {
    const args = ['-c', `remote.x.url=${url}`, 'ls-remote', '--get-url', 'x']
    const env = { PATH: '/usr/bin:/bin', GIT_CONFIG_SYSTEM: path, GIT_CONFIG_GLOBAL: '/dev/null' }
    return execFileSync('git', args, { env, cwd: '/', encoding: 'utf8' }).trim()
  }
  expect(remote('git@github.com:one/two.git')).toBe('https://github.com/one/two.git')
  expect(remote('ssh://git@gitlab.com/one/two')).toBe('https://gitlab.com/one/two')
  expect(remote('git@example.com:one/two.git')).toBe('git@example.com:one/two.git')
})
