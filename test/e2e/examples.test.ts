import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type PrivateDaemon, startPrivateDaemon } from '../../tools/private-daemon.ts'

const run = promisify(execFile)

const EXPECTED: Record<string, RegExp> = {
  'agent-tools.ts':
    /^wrote fib\.py\nexit=0\ncwd=\/workspace\n---\n10 fib\.txt\r?\n\n0 1 1 2 3 5 8 13 21 34 \nerror: no such file/,
  'first-session.ts': /output: 'sandglass in \/tmp\\n'.*exitCode: 0.*cwd: '\/tmp'.*\n5050\n22 bytes read back\n$/s,
  'stream-output.ts':
    /^step 1\r?\nstep 2\r?\nstep 3\r?\nexit code 0, at least 300 ms\n(?=.*out: out|.*stdout: out).*stderr: err.*ended with 3\n$/s,
}

describe('the examples', () => {
  let daemon: PrivateDaemon
  beforeAll(async () => {
    daemon = await startPrivateDaemon()
  })
  afterAll(() => daemon?.stop())

  it('each has an expected output here', () => {
    expect(readdirSync('examples').filter(name => name.endsWith('.ts'))).toEqual(Object.keys(EXPECTED))
  })

  it.each(Object.keys(EXPECTED))('%s prints what it should and leaves no session', async name => {
    const env = { PATH: process.env.PATH, HOME: '/nonexistent', SANDGLASS_URL: daemon.url, SANDGLASS_API_KEY: daemon.apiKey }
    const { stdout } = await run(process.execPath, [`examples/${name}`], { env })
    expect(stdout).toMatch(EXPECTED[name] ?? /never/)
    expect(await daemon.client.listSessions()).toEqual([])
  })
})
