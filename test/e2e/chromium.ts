// Debian's Chromium with a page in it and nothing else: an empty profile of its own, gone at the end.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const FLAGS = [
  '--headless',
  '--disable-gpu',
  '--disable-quic',
  '--disable-dev-shm-usage',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
  '--no-proxy-server',
  '--enable-logging=stderr',
]
const PATIENCE_MS = 5000

export type Browser = AsyncDisposable & {
  /** What it printed: the page's console among it. */
  readonly log: string
}

/** `names` lead to this machine: a page on such a name is neither localhost nor secure, like most pages on a local network. */
export function openChromium(url: string, names: readonly string[]): Browser {
  const profile = mkdtempSync(join(tmpdir(), 'sg-chromium-'))
  const rules = `--host-resolver-rules=${names.map(name => `MAP ${name} 127.0.0.1`).join(',')}`
  const asRoot = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  const child = spawn('chromium', [...FLAGS, ...asRoot, rules, `--user-data-dir=${profile}`, url], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env.PATH, HOME: profile, TMPDIR: profile },
    detached: true,
  })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', text => {
    log += text
  })
  child.on('error', error => {
    log += `${error}\n`
  })
  const gone = once(child, 'close')
  return {
    get log() {
      return log
    },
    async [Symbol.asyncDispose]() {
      if (child.pid !== undefined) {
        child.kill('SIGTERM')
        const group = -child.pid
        const cut = setTimeout(() => process.kill(group, 'SIGKILL'), PATIENCE_MS)
        await gone
        clearTimeout(cut)
      }
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}
