import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CliHome } from './cli-home.ts'

const run = promisify(execFile)

const EXPECTED: Record<string, RegExp> = {
  'agent-tools.ts':
    /^wrote fib\.py\nexit=0\ncwd=\/workspace\n---\n10 fib\.txt\r?\n\n0 1 1 2 3 5 8 13 21 34 \nerror: no such file/,
  'first-session.ts': /output: 'sandglass in \/tmp\\n'.*exitCode: 0.*cwd: '\/tmp'.*\n5050\n22 bytes read back\n$/s,
  'forward-port.ts': /^hello from inside\n$/,
  'network-policy.ts':
    /^false .*GET, not with DELETE\nblocked_by_network_allowlist\nblocked GET http:\/\/elsewhere\.example\.org\/x\n$/,
  'stream-output.ts':
    /^step 1\r?\nstep 2\r?\nstep 3\r?\nexit code 0, at least 300 ms\n(?=.*out: out|.*stdout: out).*stderr: err.*ended with 3\n$/s,
}

/** test/e2e/tasks/sdk.test.ts runs it with a model. */
const WITH_A_MODEL = 'run-an-agent.ts'

describe('the examples', () => {
  let cli: CliHome
  beforeAll(async () => {
    cli = await CliHome.open()
  })
  afterAll(() => cli?.close())

  it('each has an expected output here', () => {
    const names = readdirSync('examples').filter(name => name.endsWith('.ts') && name !== WITH_A_MODEL)
    expect(names).toEqual(Object.keys(EXPECTED))
  })

  it.each(Object.keys(EXPECTED))('%s prints what it should and leaves no session', async name => {
    const { stdout } = await run(process.execPath, [`examples/${name}`], { env: cli.env })
    expect(stdout).toMatch(EXPECTED[name] ?? /never/)
    expect(JSON.parse((await cli.run(['ls', '--json'])).stdout)).toEqual([])
  })
})
