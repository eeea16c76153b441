// Certificate authorities for tests, and certificates that they sign, made with openssl.
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TrustedCa } from '../../backend.ts'

export interface TestAuthority extends TrustedCa {
  readonly der: Buffer
  /** Certificate and key of a server with the name localhost, in PEM. */
  readonly server: { readonly certificate: string; readonly key: string }
}

const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-utf8']

/** `subject` is in the format of openssl. */
export function testAuthority(subject = '/O=Sandglass/CN=Sandglass CA for tests'): TestAuthority {
  const folder = mkdtempSync(join(tmpdir(), 'sandglass-ca-'))
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] })
  try {
    const isCa = ['-addext', 'basicConstraints=critical,CA:true', '-addext', 'keyUsage=critical,keyCertSign']
    openssl('req', '-x509', ...KEY, '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2', '-subj', subject, ...isCa)
    openssl('req', ...KEY, '-keyout', 'server.key', '-out', 'server.csr', '-subj', '/CN=localhost')
    writeFileSync(join(folder, 'extensions'), 'subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth\n')
    const signed = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '1', '-extfile', 'extensions']
    openssl('x509', '-req', '-in', 'server.csr', ...signed, '-out', 'server.pem')
    const read = (name: string) => readFileSync(join(folder, name), 'utf8')
    const { raw, fingerprint256 } = new X509Certificate(read('ca.pem'))
    return {
      certificate: read('ca.pem'),
      fingerprint: fingerprint256.replaceAll(':', '').toLowerCase(),
      der: raw,
      server: { certificate: read('server.pem'), key: read('server.key') },
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}
