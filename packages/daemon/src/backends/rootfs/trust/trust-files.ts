// The files that make the programs of an image trust the certificate authority: certificates of the system and of Java, settings of browsers and git.
// They are part of the root filesystem, so they also hold for a program with an empty environment. trust-env.ts covers programs that bring their own
// certificates.
//
// Not covered: Firefox, programs that have their certificates compiled in and read neither a variable nor a file, and files below /home and /root. In
// the image `host`, /usr is the host's own and stays as it is, so a Java with a cacerts file in /usr is not covered there. On Debian and Fedora it is
// a link into /etc.
import { rootCertificates } from 'node:tls'
import type { TrustedCa } from '../../backend.ts'
import type { FoundPaths } from '../found-paths.ts'
import { certificatesIn } from './der.ts'
import { ImagePaths, pathsIn, withParents } from './image-paths.ts'
import { javaKeystore } from './java-keystore.ts'
import { subjectHash } from './subject-hash.ts'
import { BUNDLE_FILE, CA_FILE, certificateFilesIn } from './trust-env.ts'

type Env = Readonly<Record<string, string>>

/** The files that an image without any system bundle gets. */
const DEFAULT_BUNDLES = ['/etc/ssl/certs/ca-certificates.crt', '/etc/ssl/cert.pem']
const SYSTEM_BUNDLES = [
  ...DEFAULT_BUNDLES,
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/pki/tls/cert.pem',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/etc/ssl/ca-bundle.pem',
  '/var/lib/ca-certificates/ca-bundle.pem',
]
/** Folders in which OpenSSL finds a certificate by the hash of its subject. The first is made where it is missing. */
const HASHED_FOLDER = '/etc/ssl/certs'
const OTHER_HASHED_FOLDER = '/etc/pki/tls/certs'
/**
 * Folders of additional certificates, by a folder that systems with it have. When a package is installed, the system's tool makes the bundles and
 * keystores anew, with the certificates of this folder.
 */
const ADDITIONS: Readonly<Record<string, string>> = {
  '/usr/local/share': '/usr/local/share/ca-certificates',
  '/etc/pki/ca-trust/source': '/etc/pki/ca-trust/source/anchors',
  '/etc/pki/trust': '/etc/pki/trust/anchors',
  '/etc/ca-certificates/trust-source': '/etc/ca-certificates/trust-source/anchors',
}
const KEYSTORE = 'cacerts'
const SYSTEM_KEYSTORES = ['/etc/ssl/certs/java', '/etc/pki/java', '/etc/pki/ca-trust/extracted/java']
const JAVA_HOMES = ['/usr/lib/jvm/*', '/usr/java/*', '/usr/local/*', '/opt/java/*', '/opt/*']
const IN_JAVA_HOME = ['lib/security', 'jre/lib/security']
/** Chromium, Chrome, and the Chrome of automation tools have root certificates of their own, and add those of this policy. */
const POLICIES = ['chromium', 'opt/chrome', 'opt/chrome_for_testing'].map(name => `/etc/${name}/policies/managed`)
const GIT_CONFIG = '/etc/gitconfig'
/** Egress carries HTTPS and not ssh, so git uses HTTPS for the ssh remotes of these hosts. */
const GIT_HOSTS = ['github.com', 'gitlab.com', 'bitbucket.org']

/** The paths of an image that `trustFiles` has to know about. `env` is the image's. */
export function trustPaths(env: Env): string[] {
  const files = [...bundlePaths(env), ...SYSTEM_KEYSTORES.map(folder => `${folder}/${KEYSTORE}`), GIT_CONFIG, CA_FILE]
  const folders = [HASHED_FOLDER, OTHER_HASHED_FOLDER, ...Object.values(ADDITIONS), ...POLICIES]
  const ofJava = [...JAVA_HOMES, ...pathsIn([env.JAVA_HOME])].flatMap(home =>
    IN_JAVA_HOME.map(folder => `${home}/${folder}/${KEYSTORE}`),
  )
  return [...new Set([...[...files, ...folders].flatMap(withParents), ...ofJava])]
}

/** The content of files by their path without links. `isFixed` is true for paths that cannot be changed. */
export function trustFiles(
  trust: TrustedCa,
  found: FoundPaths,
  env: Env,
  isFixed: (path: string) => boolean = () => false,
): ReadonlyMap<string, Buffer> {
  const image = new ImagePaths(found, isFixed)
  const files = new Map<string, Buffer>()
  for (const [path, content] of Object.entries(contents(trust, image, env))) {
    const place = image.placeOf(path)
    if (place !== null) files.set(place, typeof content === 'string' ? Buffer.from(content, 'latin1') : content)
  }
  return files
}

function contents(trust: TrustedCa, image: ImagePaths, env: Env): Record<string, string | Buffer> {
  const ca = `${trust.certificate.trim()}\n`
  const [der = Buffer.alloc(0)] = certificatesIn(ca)
  const bundles = bundlePaths(env).filter(path => image.has(path, 'file'))
  const roots = bundles.map(path => image.text(path)).find(hasCertificates) ?? rootCertificates.join('\n')
  // A bundle that is empty, or too long to be read, gets the certificates of another one.
  const withCa = (text: string) => `${(hasCertificates(text) ? text : roots).trimEnd()}\n${ca}`

  const files: Record<string, string | Buffer> = { [CA_FILE]: ca, [BUNDLE_FILE]: withCa(roots) }
  for (const path of bundles) files[path] = withCa(image.text(path))
  if (!SYSTEM_BUNDLES.some(path => image.has(path, 'file'))) for (const path of DEFAULT_BUNDLES) files[path] = withCa(roots)
  for (const folder of [HASHED_FOLDER, OTHER_HASHED_FOLDER])
    if (folder === HASHED_FOLDER || image.has(folder, 'folder')) files[`${folder}/${subjectHash(der)}.0`] = ca
  for (const [system, folder] of Object.entries(ADDITIONS)) if (image.has(system, 'folder')) files[`${folder}/sandglass.crt`] = ca
  for (const path of image.named(KEYSTORE)) files[path] = keystore(der, certificatesIn(roots))
  for (const folder of POLICIES) files[`${folder}/sandglass.json`] = JSON.stringify({ CACertificates: [der.toString('base64')] })
  if (!image.has(GIT_CONFIG)) files[GIT_CONFIG] = GIT_HOSTS.map(httpsInsteadOfSsh).join('')
  return files
}

const bundlePaths = (env: Env): string[] => [...SYSTEM_BUNDLES, ...pathsIn(certificateFilesIn(env))]

const hasCertificates = (text: string): boolean => certificatesIn(text).length > 0

const keystore = (ca: Buffer, roots: readonly Buffer[]): Buffer =>
  javaKeystore(new Map([['sandglass', ca], ...roots.map((der, i): [string, Buffer] => [`root-${i + 1}`, der])]))

const httpsInsteadOfSsh = (host: string): string =>
  `[url "https://${host}/"]\n\tinsteadOf = git@${host}:\n\tinsteadOf = ssh://git@${host}/\n`
