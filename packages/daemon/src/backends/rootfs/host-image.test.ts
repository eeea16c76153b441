import { lstat, mkdir, readdir, readFile, readlink, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../../testing/daemon.fixture.ts'
import { prepareHost } from './host-image.ts'
import { testAuthority } from './trust/authority.fixture.ts'
import { subjectHash } from './trust/subject-hash.ts'

const ca = testAuthority()
const [ROOT = ''] = rootCertificates

/** A host with these files and links (those with a `>`). */
async function hostWith(files: Record<string, string>): Promise<string> {
  const root = await temporaryFolder()
  for (const folder of ['etc', 'usr']) await mkdir(join(root, folder))
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(root, dirname(name)), { recursive: true })
    if (content.startsWith('>')) await symlink(content.slice(1), join(root, name))
    else await writeFile(join(root, name), content)
  }
  return root
}

async function variantOf(root: string) {
  const images = await temporaryFolder()
  const { name, layers } = await prepareHost(images, ca, root)
  const text = (path: string) => readFile(join(images, name, path), 'utf8')
  return { images, name, layers, text }
}

it('the variant of the host image trusts the certificate authority, and the plain one does not', async () => {
  const root = await hostWith({
    'etc/ssl/certs/ca-certificates.crt': ROOT,
    'etc/ssl/certs/java/cacerts': 'old',
    'usr/lib/jvm/one/lib/security/cacerts': '>/etc/ssl/certs/java/cacerts',
  })
  const { images, name, text } = await variantOf(root)
  expect(await text('etc/ssl/certs/ca-certificates.crt')).toBe(`${ROOT.trim()}\n${ca.certificate}`)
  expect(await text('etc/ssl/sandglass/ca.pem')).toBe(ca.certificate)
  expect((await readFile(join(images, name, 'etc/ssl/certs/java/cacerts'))).includes(ca.der)).toBe(true)
  const plain = await prepareHost(images, null, root)
  expect(name).toMatch(new RegExp(`^${plain.name}-ca-[0-9a-f]{16}$`))
  expect(await readFile(join(images, plain.name, 'etc/ssl/certs/ca-certificates.crt'), 'utf8')).toBe(ROOT)
  expect(await readdir(join(images, plain.name, 'etc/ssl'))).toEqual(['certs'])
  const made = await lstat(join(images, name))
  expect((await prepareHost(images, ca, root)).name).toBe(name)
  expect((await lstat(join(images, name))).ino).toBe(made.ino)
})

it('files of the host that links lead to are not changed', async () => {
  const outside = join(await temporaryFolder(), 'file')
  await writeFile(outside, 'of the host')
  const root = await hostWith({
    [`etc/ssl/certs/${subjectHash(ca.der)}.0`]: `>${outside}`,
    'etc/ssl/certs/ca-certificates.crt': '>/usr/share/bundle.crt',
    'usr/share/bundle.crt': ROOT,
    'etc/pki/tls/certs/ca-bundle.crt': '>../../../../../../../../usr/share/bundle.crt',
    'usr/lib/jvm/one/lib/security/cacerts': 'of the host',
  })
  const { images, name, text } = await variantOf(root)
  expect(await readFile(outside, 'utf8')).toBe('of the host')
  expect(await readFile(join(root, 'usr/share/bundle.crt'), 'utf8')).toBe(ROOT)
  expect(await readFile(join(root, 'usr/lib/jvm/one/lib/security/cacerts'), 'utf8')).toBe('of the host')
  expect(await readlink(join(root, 'etc/ssl/certs/ca-certificates.crt'))).toBe('/usr/share/bundle.crt')
  expect(await text(`etc/ssl/certs/${subjectHash(ca.der)}.0`)).toBe(ca.certificate)
  // A bundle in /usr cannot be changed, so a file takes the place of the link to it.
  for (const path of ['etc/ssl/certs/ca-certificates.crt', 'etc/pki/tls/certs/ca-bundle.crt'])
    expect(await text(path)).toBe(`${ROOT.trim()}\n${ca.certificate}`)
  expect(await readdir(join(images, name, 'usr'))).toEqual([])
})

it('a host whose folder of certificates is a link out of /etc gets a folder in its place', async () => {
  const root = await hostWith({ 'etc/ssl/certs': '>/var/lib/ca-certificates/pem', 'var/lib/ca-certificates/pem/x': '' })
  const { text } = await variantOf(root)
  expect(await text('etc/ssl/certs/ca-certificates.crt')).toContain(ca.certificate)
})
