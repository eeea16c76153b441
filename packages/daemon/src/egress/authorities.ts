// The certificate authorities that sign certificates for sandboxes. The newest one is for starts; older ones are kept while machines that trust them run.
import { X509Certificate } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { CertificateAuthority } from '@sandglass/contract'
import type { Authority } from '@sandglass/egress/control'
import { readOrCreatePrivate, readPrivate } from '../data-dir/private-file.ts'
import { namesIn } from '../lib/missing-file.ts'

const FILE = /^(\d{6})\.pem$/
/** A certificate is renewed when less than this part of its life is left. */
const RENEWED_PART = 0.1

type Stored = Authority & { readonly number: number; readonly createdAt: string }

export class Authorities {
  readonly #folder: string
  readonly #now: () => number
  #stored: Stored[] | null = null
  #work: Promise<unknown> = Promise.resolve()

  constructor(dataDir: string, now: () => number) {
    this.#folder = join(dataDir, 'ca')
    this.#now = now
  }

  /** The authority for starts. The first need makes it, and one that is about to expire is replaced. */
  async current(): Promise<Stored> {
    return await this.#oneAtATime(async () => {
      const newest = (await this.#load()).at(-1)
      return newest !== undefined && !isExpiring(newest, this.#now()) ? newest : await this.#make()
    })
  }

  /** Undefined while none has been made. */
  async newest(): Promise<Authority | undefined> {
    return await this.#oneAtATime(async () => (await this.#load()).at(-1))
  }

  /** All of them, the newest first; there is at least one. */
  async all(): Promise<Authority[]> {
    await this.current()
    return (await this.#load()).toReversed().map(({ fingerprint, certificate, key }) => ({ fingerprint, certificate, key }))
  }

  async rotate(): Promise<Stored> {
    return await this.#oneAtATime(() => this.#make())
  }

  /** Removes older ones that no machine trusts. The one before the newest stays: a start that is under way may have planned with it. */
  async prune(inUse: ReadonlySet<string>): Promise<void> {
    await this.#oneAtATime(async () => {
      const stored = await this.#load()
      const unused = stored.slice(0, -2).filter(({ fingerprint }) => !inUse.has(fingerprint))
      for (const { number } of unused) await rm(this.#path(number), { force: true })
      this.#stored = stored.filter(authority => !unused.includes(authority))
    })
  }

  /** Loading, making and removing follow each other, so that two needs at once make one authority. */
  #oneAtATime<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#work.then(work)
    this.#work = result.catch(() => undefined) // the caller gets the error
    return result
  }

  async #load(): Promise<Stored[]> {
    this.#stored ??= (await this.#numbers()).flatMap(number => parse(number, readPrivate(this.#path(number))))
    return this.#stored
  }

  /** Of all files, the damaged ones included. */
  async #numbers(): Promise<number[]> {
    const names = await namesIn(this.#folder)
    return names
      .flatMap(name => FILE.exec(name)?.[1] ?? [])
      .map(Number)
      .sort((a, b) => a - b)
  }

  async #make(): Promise<Stored> {
    // Loaded only where it is used: the library costs start time and memory.
    const { createAuthority } = await import('@sandglass/egress/authority')
    const { certificate, key } = await createAuthority(this.#now())
    const stored = await this.#load()
    const number = ((await this.#numbers()).at(-1) ?? 0) + 1
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    // SECURITY: certificate and key are one file, so that a crash cannot leave a certificate with the key of another.
    const content = `created_at: ${new Date(this.#now()).toISOString()}\n${certificate.trim()}\n${key.trim()}\n`
    const text = readOrCreatePrivate(this.#path(number), () => Buffer.from(content))
    const [made] = parse(number, text)
    if (made === undefined) throw new Error('a certificate authority could not be made')
    this.#stored = [...stored, made]
    return made
  }

  #path(number: number): string {
    return join(this.#folder, `${String(number).padStart(6, '0')}.pem`)
  }
}

export function shownAuthority({ certificate, fingerprint, createdAt }: Stored): CertificateAuthority {
  const { validToDate } = new X509Certificate(certificate)
  return { certificate, fingerprint, created_at: createdAt, expires_at: validToDate.toISOString() }
}

function parse(number: number, content: Buffer | null): Stored[] {
  const text = content?.toString('utf8') ?? ''
  const certificate = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?/.exec(text)?.[0]
  const key = /-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]+-----END [A-Z ]*PRIVATE KEY-----\n?/.exec(text)?.[0]
  const createdAt = /^created_at: (\S+)$/m.exec(text)?.[1]
  if (certificate === undefined || key === undefined || createdAt === undefined) return []
  return [{ number, createdAt, certificate, key, fingerprint: fingerprintOf(certificate) }]
}

/** SHA-256 of the certificate, in hex. */
const fingerprintOf = (pem: string) => new X509Certificate(pem).fingerprint256.replaceAll(':', '').toLowerCase()

function isExpiring({ certificate }: Authority, now: number): boolean {
  const { validFromDate, validToDate } = new X509Certificate(certificate)
  const [from, to] = [validFromDate.getTime(), validToDate.getTime()]
  return to - now < RENEWED_PART * (to - from)
}
