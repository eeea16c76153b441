// The certificate authority that signs the certificates which programs in a sandbox see.
import 'reflect-metadata'
import { randomBytes, X509Certificate } from 'node:crypto'
import * as x509 from '@peculiar/x509'

export interface AuthorityFiles {
  /** PEM. */
  readonly certificate: string
  /** PEM, PKCS#8. */
  readonly key: string
  readonly fingerprint: string
}

export const P256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const YEARS = 5
const DAY_MS = 86_400_000

/** Makes an authority of its own, under a name that nobody else has. */
export async function createAuthority(now = Date.now()): Promise<AuthorityFiles> {
  const keys = await crypto.subtle.generateKey(P256, true, ['sign', 'verify'])
  const certificate = await x509.X509CertificateGenerator.createSelfSigned(
    {
      name: [{ O: ['Sandglass'] }, { CN: [`Sandglass CA ${randomBytes(4).toString('hex')}`] }],
      serialNumber: serialNumber(),
      // Clocks in a sandbox may be behind.
      notBefore: new Date(now - DAY_MS),
      notAfter: new Date(now + YEARS * 365 * DAY_MS),
      signingAlgorithm: P256,
      keys,
      extensions: [
        // SECURITY: what it signs cannot sign further certificates.
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey, false, crypto),
      ],
    },
    crypto,
  )
  const pem = certificate.toString('pem')
  const pkcs8 = await crypto.subtle.exportKey('pkcs8', keys.privateKey)
  return { certificate: pem, key: x509.PemConverter.encode(pkcs8, 'PRIVATE KEY'), fingerprint: fingerprintOf(pem) }
}

/** SHA-256 of the certificate, in lower-case hexadecimal without separators. */
export const fingerprintOf = (pem: string): string => new X509Certificate(pem).fingerprint256.replaceAll(':', '').toLowerCase()

/** Positive, and of 16 bytes. */
export function serialNumber(): string {
  const bytes = randomBytes(16)
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x01
  return bytes.toString('hex')
}
