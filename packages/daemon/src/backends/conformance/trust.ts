// The certificate authority of the egress process: the programs of a machine trust it, in every image, with an environment and without, and only where
// a machine asks for it. A TLS server in the machine itself has a certificate that it signed.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { expect } from 'vitest'
import type { Backend, LayeredImage, TrustedCa } from '../backend.ts'
import { busyboxImage, busyboxLayer, type Entry, imageOf } from '../rootfs/image.fixture.ts'
import { type TestAuthority, testAuthority } from '../rootfs/trust/authority.fixture.ts'
import { certificatesIn } from '../rootfs/trust/der.ts'
import { type Box, boxOf, type Check, inBox, type Subject, specOf, startsInTime } from './subject.ts'

/** The first start of a large program can take half a minute. */
const RUN_MS = 50_000
const URL = 'https://localhost:8443/'
const PORT = 8443

const authorities: TestAuthority[] = []

/** Made when the first check needs it. */
function authority(): TestAuthority {
  const made = authorities[0] ?? testAuthority()
  authorities[0] = made
  return made
}

/** Checks of programs of the host, which share a machine, with the programs that they need in /usr. */
const CLIENTS: Record<string, { readonly needs: readonly string[]; readonly run: (box: Box) => Promise<void> }> = {
  'openssl finds the certificate authority in its folder and in the bundle': {
    needs: ['openssl'],
    run: async box => {
      for (const where of ['', '-CApath /etc/ssl/certs', '-CAfile /etc/ssl/certs/ca-certificates.crt'])
        await says(box, `openssl verify ${where} ~/server.pem`, /: OK$/)
    },
  },
  'python trusts the certificate authority by default': {
    needs: ['openssl', 'python3'],
    run: box => says(box, `/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen("${URL}").status)'`, /^200$/),
  },
  'curl and git trust the certificate authority by default': {
    needs: ['openssl', 'curl', 'git'],
    run: async box => {
      await says(box, `curl -sS -o /dev/null -w '%{http_code}' ${URL}`, /^200$/)
      // The server has no repository, which git finds out once it has accepted its certificate.
      await says(box, `git ls-remote ${URL}x 2>&1`, /not valid|not found/)
    },
  },
  'node trusts the certificate authority by its environment': {
    needs: ['openssl', 'node'],
    run: async ({ run }) => {
      const script = `require("https").get("${URL}", r => { console.log(String(r.statusCode)); r.destroy() })`
      expect((await run(`node -e '${script}'`, RUN_MS)).output).toBe('200')
    },
  },
  'java trusts the certificate authority by default': {
    needs: ['openssl', 'java', 'javac', 'keytool'],
    run: async box => {
      await says(box, 'keytool -list -cacerts -storepass changeit -alias sandglass', /trustedCertEntry/)
      await box.run(`base64 -d > ~/Fetch.class <<'END'\n${await fetchClass()}\nEND`)
      await says(box, 'java -XX:TieredStopAtLevel=1 -cp /home/sandbox Fetch', /^200$/)
    },
  },
  'git reaches the ssh remotes of well-known hosts by https': {
    needs: ['openssl', 'git'],
    run: box =>
      says(box, 'git -c remote.x.url=git@github.com:a/b.git ls-remote --get-url x', /^https:\/\/github\.com\/a\/b\.git$/),
  },
  'headless Chromium trusts the certificate authority': {
    needs: ['openssl', 'chromium'],
    run: async ({ run }) => {
      const chromium = 'chromium --headless --no-sandbox --disable-gpu --user-data-dir=/tmp/trusting'
      expect((await run(`${chromium} --dump-dom ${URL} 2>/dev/null`, RUN_MS)).output).toContain('s_server')
    },
  },
}

const IN_IMAGES: Record<string, Check> = {
  'without a certificate authority nothing of it is in a machine': async (backend, subject) => {
    await inBox(backend, subject, {}, async ({ run }) => {
      expect((await run('ls /etc/ssl/sandglass /etc/gitconfig /etc/chromium 2>/dev/null; env | grep -c sandglass/')).output).toBe(
        '0',
      )
    })
  },

  'an image without certificates gets public roots and the certificate authority, and stays read-only': (backend, subject) =>
    withImage(busyboxImage, async image => {
      const env = { CURL_CA_BUNDLE: '/mine' }
      await inTrusting(backend, subject, image, authority(), { env }, async ({ run }) => {
        for (const path of ['/etc/ssl/certs/ca-certificates.crt', '/etc/ssl/cert.pem', '/etc/ssl/sandglass/bundle.pem'])
          await hasCertificates(run, path, [...rootCertificates, authority().certificate])
        expect((await run('echo $NODE_EXTRA_CA_CERTS $SSL_CERT_FILE $CURL_CA_BUNDLE $FROM_IMAGE')).output).toBe(
          '/etc/ssl/sandglass/ca.pem /etc/ssl/sandglass/bundle.pem /mine yes',
        )
        expect((await run('stat -c %a /etc/ssl /etc/ssl/sandglass/ca.pem')).output).toBe('755\n644')
        expect((await run('touch /etc/ssl/sandglass/ca.pem')).code).not.toBe(0)
        expect((await run('echo x >> /etc/ssl/certs/ca-certificates.crt')).code).not.toBe(0)
      })
      await inBox(backend, subject, { image }, async ({ run }) => {
        expect((await run('ls /etc/ssl')).code).not.toBe(0)
      })
    }),

  'the certificates of an image are kept, and are where its links lead to': (backend, subject) =>
    withImage(linkedImage, image =>
      inTrusting(backend, subject, image, authority(), {}, async ({ run }) => {
        for (const path of [
          '/etc/ssl/certs/ca-bundle.crt',
          '/etc/pki/tls/cert.pem',
          '/etc/ssl/sandglass/bundle.pem',
          '/opt/own.pem',
        ])
          await hasCertificates(run, path, [...rootCertificates.slice(0, 1), authority().certificate])
        expect((await run('ls -l /etc/ssl/certs /etc/pki/tls/cert.pem')).output).toContain('-> ../pki/tls/certs')
        // The content of a Java keystore is binary; it has the name of the entry.
        expect((await run('cat /usr/lib/jvm/java/lib/security/cacerts | busybox strings')).output).toContain('sandglass')
        expect((await run('cat /etc/gitconfig')).output).toBe('own')
      }),
    ),

  'machines with different certificate authorities run at once, and each starts again after the other one was pruned': (
    backend,
    subject,
  ) =>
    withImage(busyboxImage, async image => {
      const other = testAuthority('/CN=Another CA')
      const first = specOf(subject, { image, trust: authority() })
      const box = boxOf(await backend.start(first, startsInTime(subject)), first, subject)
      const certificate = async ({ run }: Box) => certificatesIn((await run('cat /etc/ssl/sandglass/ca.pem')).output)
      try {
        await inTrusting(backend, subject, image, other, {}, async second => {
          await backend.pruneImages?.([image], new Set(), authority())
          expect(await certificate(second)).toEqual([other.der])
          await backend.pruneImages?.([image], new Set(), other)
          expect(await certificate(box)).toEqual([authority().der])
        })
      } finally {
        box.link.close()
        await box.machine.destroy()
      }
      await backend.pruneImages?.([image], new Set(), other)
      await inTrusting(backend, subject, image, authority(), {}, async again => {
        expect(await certificate(again)).toEqual([authority().der])
      })
    }),
}

export const TRUST: Record<string, Check> = {
  ...Object.fromEntries(
    Object.entries(CLIENTS).map(([title, { run }]) => [
      title,
      async (backend: Backend, subject: Subject) => await run(await sharedBox(backend, subject)),
    ]),
  ),
  ...IN_IMAGES,
}

/** The programs that a check needs in /usr, by its title. */
export const TRUST_NEEDS: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  Object.keys(TRUST).map(title => [title, CLIENTS[title]?.needs ?? ['openssl']]),
)

/** The file has these certificates and nothing else. */
async function hasCertificates(run: Box['run'], path: string, certificates: readonly string[]): Promise<void> {
  const content = certificates.map(pem => `${pem.trim()}\n`).join('')
  const digest = createHash('sha256').update(content).digest('hex')
  expect((await run(`busybox sha256sum ${path}`)).output).toBe(`${digest}  ${path}`)
}

/** Runs the command with the environment of a session and with none. */
async function says({ run }: Box, command: string, output: RegExp): Promise<void> {
  expect((await run(command, RUN_MS)).output).toMatch(output)
  expect((await run(`env -i ${command}`, RUN_MS)).output).toMatch(output)
}

const shared = new WeakMap<Backend, Promise<Box>>()

/** Starts with the first check and ends with the suite, which discards what is left. */
function sharedBox(backend: Backend, subject: Subject): Promise<Box> {
  const start = async () => {
    const spec = specOf(subject, { pidsLimit: 256, trust: authority() })
    const box = boxOf(await backend.start(spec, startsInTime(subject)), spec, subject)
    const { certificate, key } = authority().server
    await box.run(`cd; cat > server.pem <<'END'\n${certificate}END\ncat > server.key <<'END'\n${key}END`)
    await box.run(`{ openssl s_server -accept ${PORT} -cert server.pem -key server.key -www >log 2>&1 & }`)
    await box.run(`until (: </dev/tcp/127.0.0.1/${PORT}) 2>/dev/null; do sleep 0.05; done`)
    return box
  }
  const box = shared.get(backend) ?? start()
  shared.set(backend, box)
  return box
}

/** Starts a machine that trusts the certificate authority. */
async function inTrusting(
  backend: Backend,
  subject: Subject,
  image: LayeredImage,
  trust: TrustedCa,
  changes: Parameters<typeof specOf>[1],
  work: (box: Box) => Promise<void>,
): Promise<void> {
  await backend.prepare({ image, trust }, AbortSignal.timeout(60_000))
  await inBox(backend, subject, { ...changes, image, trust }, work)
}

async function withImage(
  make: (folder: string) => Promise<LayeredImage>,
  work: (image: LayeredImage) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sandglass-image-'))
  try {
    await work(await make(folder))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** The links of Fedora, a Java behind links, a bundle that the environment names, and settings of git. */
async function linkedImage(folder: string): Promise<LayeredImage> {
  const [root = ''] = rootCertificates
  const link = (name: string, linkname: string): Entry => ({ name, linkname, type: 'symlink' })
  const entries: Entry[] = [
    link('etc/ssl/certs', '../pki/tls/certs'),
    link('etc/pki/tls/certs/ca-bundle.crt', '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem'),
    link('etc/pki/tls/cert.pem', 'certs/ca-bundle.crt'),
    { name: 'etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem', content: root },
    { name: 'usr/lib/jvm/java-21/lib/security/cacerts', content: 'old' },
    link('usr/lib/jvm/java', 'java-21'),
    { name: 'opt/own.pem', content: root },
    { name: 'etc/gitconfig', content: 'own' },
  ]
  return await imageOf(folder, [{ entries: await busyboxLayer() }, { entries }], { SSL_CERT_FILE: '/opt/own.pem' })
}

const FETCH_JAVA = `
public class Fetch {
  public static void main(String[] args) throws Exception {
    var connection = (javax.net.ssl.HttpsURLConnection) new java.net.URL("${URL}").openConnection();
    System.out.println(connection.getResponseCode());
  }
}`

/** Compiled on the host: a compiler takes half a minute on an emulated processor. */
async function fetchClass(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sandglass-java-'))
  try {
    await writeFile(join(folder, 'Fetch.java'), FETCH_JAVA)
    execFileSync('javac', ['-d', folder, join(folder, 'Fetch.java')])
    return await readFile(join(folder, 'Fetch.class'), 'base64')
  } finally {
    await rm(folder, { recursive: true })
  }
}
