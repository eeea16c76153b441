// For tests and benchmarks: an npm registry on this machine whose claude is a script.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const SCRIPTED_VERSION = '9.9.9'

export type ScriptedRegistry = AsyncDisposable & { readonly url: string }

/** `program` is the text of the script. Any version that is asked for is SCRIPTED_VERSION. */
export async function scriptedRegistry(program: string): Promise<ScriptedRegistry> {
  const tarball = packageOf(program)
  const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`
  const server = createServer(({ url = '' }, response) => {
    if (url.endsWith('.tgz')) response.end(tarball)
    else response.end(JSON.stringify({ version: SCRIPTED_VERSION, dist: { integrity } }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
}

function packageOf(program: string): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'sg-scripted-'))
  try {
    mkdirSync(join(folder, 'package'))
    writeFileSync(join(folder, 'package', 'claude'), program, { mode: 0o755 })
    return execFileSync('tar', ['-cz', '-C', folder, 'package'])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
