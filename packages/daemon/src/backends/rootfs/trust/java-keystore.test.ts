import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../../../testing/daemon.fixture.ts'
import { testAuthority } from './authority.fixture.ts'
import { javaKeystore } from './java-keystore.ts'

it('keytool lists every certificate of a keystore under its alias', async () => {
  const { der, fingerprint } = testAuthority()
  const roots = rootCertificates.map((pem, i) => [`root-${i}`, new X509Certificate(pem).raw] as const)
  const path = join(await temporaryFolder(), 'cacerts')
  await writeFile(path, javaKeystore(new Map([['sandglass', der], ...roots])))
  // The password is given, so keytool checks the digest at the end of the file.
  const listed = execFileSync('keytool', ['-list', '-keystore', path, '-storepass', 'changeit'], { encoding: 'utf8' })
  expect(listed).toContain(`Your keystore contains ${rootCertificates.length + 1} entries`)
  const inHex = listed.replaceAll(':', '').toLowerCase()
  expect(inHex).toMatch(new RegExp(`sandglass, .*trustedcertentry.*\\n.*${fingerprint}`))
})
