// Certificates for the hosts that a sandbox talks to, signed by the authority that the sandbox trusts.
import 'reflect-metadata'
import { createPrivateKey } from 'node:crypto'
import { isIP } from 'node:net'
import { createSecureContext, type SecureContext } from 'node:tls'
import * as x509 from '@peculiar/x509'
import { type AuthorityFiles, P256, serialNumber } from './authority.ts'

const MAX_CONTEXTS = 2000
const DAY_MS = 86_400_000
const VALID_DAYS = 60
/** A context is made anew when its certificate is so old, well before it expires. */
const USED_DAYS = 30
/** Clocks in a sandbox may be behind: a virtual machine that was restored has the time of its snapshot. */
const SKEW_DAYS = 7

interface Signer {
  readonly certificate: x509.X509Certificate
  readonly key: CryptoKey
}

interface Entry {
  readonly context: Promise<SecureContext>
  readonly madeAt: number
}

export interface LeafCache {
  /** A TLS context for one host, which is a name or an address. The same one for each connection, so that clients can resume sessions. */
  contextFor(authority: AuthorityFiles, host: string): Promise<SecureContext>
}

export function createLeafCache(now: () => number = Date.now): LeafCache {
  const entries = new Map<string, Entry>()
  const signers = new Map<string, Promise<Signer>>()
  // One key pair for all: certificates of one process have the same holder.
  const keys = generateKeys()

  function signerOf(authority: AuthorityFiles): Promise<Signer> {
    const { fingerprint } = authority
    const signer = signers.get(fingerprint) ?? loadSigner(authority)
    signers.set(fingerprint, signer)
    signer.catch(() => signers.delete(fingerprint))
    return signer
  }

  async function make(authority: AuthorityFiles, host: string): Promise<SecureContext> {
    const signer = await signerOf(authority)
    const { publicKey, key } = await keys
    const certificate = await sign(signer, publicKey, host, now())
    return createSecureContext({ cert: certificate, key, minVersion: 'TLSv1.2', maxVersion: 'TLSv1.3' })
  }

  return {
    contextFor(authority, host) {
      const id = `${authority.fingerprint} ${host}`
      const known = entries.get(id)
      entries.delete(id)
      const entry = known && now() - known.madeAt < USED_DAYS * DAY_MS ? known : { context: make(authority, host), madeAt: now() }
      entries.set(id, entry)
      if (entries.size > MAX_CONTEXTS) entries.delete(entries.keys().next().value ?? '')
      entry.context.catch(() => entries.get(id) === entry && entries.delete(id))
      return entry.context
    },
  }
}

async function generateKeys(): Promise<{ publicKey: CryptoKey; key: string }> {
  const { publicKey, privateKey } = await crypto.subtle.generateKey(P256, true, ['sign', 'verify'])
  return { publicKey, key: x509.PemConverter.encode(await crypto.subtle.exportKey('pkcs8', privateKey), 'PRIVATE KEY') }
}

async function loadSigner({ certificate, key }: AuthorityFiles): Promise<Signer> {
  const pkcs8 = createPrivateKey(key).export({ type: 'pkcs8', format: 'der' })
  return {
    certificate: new x509.X509Certificate(certificate),
    key: await crypto.subtle.importKey('pkcs8', new Uint8Array(pkcs8), P256, false, ['sign']),
  }
}

/** SECURITY: exactly one name: a browser would send requests for a second name over the same HTTP/2 connection. */
async function sign({ certificate, key }: Signer, publicKey: CryptoKey, host: string, now: number): Promise<string> {
  const leaf = await x509.X509CertificateGenerator.create(
    {
      serialNumber: serialNumber(),
      issuer: certificate.subjectName,
      // The name is in the extension; a common name has at most 64 characters.
      subject: [{ CN: [host.length <= 64 ? host : 'sandglass'] }],
      notBefore: new Date(now - SKEW_DAYS * DAY_MS),
      notAfter: new Date(now + VALID_DAYS * DAY_MS),
      signingAlgorithm: P256,
      signingKey: key,
      publicKey,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
        new x509.SubjectAlternativeNameExtension([{ type: isIP(host) === 0 ? 'dns' : 'ip', value: host }]),
        await x509.AuthorityKeyIdentifierExtension.create(certificate, false, crypto),
        await x509.SubjectKeyIdentifierExtension.create(publicKey, false, crypto),
      ],
    },
    crypto,
  )
  return leaf.toString('pem')
}
