import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type PrivateDaemon, startPrivateDaemon } from '../../tools/private-daemon.ts'

const PAGES = ['README.md', ...readdirSync('docs/guides').map(name => `docs/guides/${name}`)]
const blocks = (page: string) =>
  [...readFileSync(page, 'utf8').matchAll(/^```([^\n]*)\n(.*?)^```$/gms)].map(m => ({
    info: m[1] ?? '',
    text: m[2] ?? '',
    index: m.index,
  }))

// A page has many commands, each of which starts the command line.
describe('the documentation', { timeout: 120_000 }, () => {
  let daemon: PrivateDaemon
  let folder: string
  beforeAll(async () => {
    daemon = await startPrivateDaemon()
    folder = mkdtempSync(join(tmpdir(), 'sandglass-pages-'))
    symlinkSync(resolve('sandglass'), join(folder, 'sandglass'))
    cpSync('README.md', join(folder, 'README.md'))
  })
  afterAll(async () => {
    await daemon?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  afterEach(async () => {
    for (const { id } of await daemon.client.listSessions()) await daemon.client.session(id).destroy()
  })

  // A `sh run` block runs in bash and stops at the first failure. A `text` block directly after it is its expected output.
  it.each(PAGES.filter(page => blocks(page).some(b => b.info === 'sh run')))('the commands in %s work', async page => {
    const all = blocks(page)
    for (const [i, block] of all.entries()) {
      if (block.info !== 'sh run') continue
      const stdout = await bash(block.text, folder, daemon)
      const next = all[i + 1]
      if (next?.info === 'text') expect(stdout.replaceAll('\r', '')).toBe(next.text)
    }
    expect(await daemon.client.listSessions()).toEqual([])
  })

  it('the code in the documentation is in the examples', () => {
    const quoted = PAGES.flatMap(page => blocks(page).map(b => ({ page, ...b }))).filter(b => b.info.startsWith('ts '))
    expect(quoted.length).toBeGreaterThan(0)
    for (const { info, text } of quoted) expect(readFileSync(info.slice(3), 'utf8')).toContain(text.trimEnd())
  })
})

function bash(script: string, cwd: string, daemon: PrivateDaemon): Promise<string> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, ...daemon.env }
    execFile('bash', ['-euo', 'pipefail', '-c', script], { cwd, env }, (error, stdout, stderr) =>
      error ? reject(new Error(`${error.message}\n${stdout}${stderr}`)) : resolve(stdout),
    )
  })
}
