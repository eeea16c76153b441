import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

describe('npm run quickstart', () => {
  let folder: string
  let output: string
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'sandglass-quick-'))
    output = execFileSync('tools/dev', ['quickstart'], {
      encoding: 'utf8',
      env: { PATH: process.env.PATH, HOME: folder, TMPDIR: folder },
    })
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('shows that cd and export are still there in the next command', () => {
    expect(output).toMatch(/\$ cd \/tmp && export GREETING=hello\n(.*\n)?.*\$ echo "\$GREETING from \$PWD"\n +hello from \/tmp\n/)
  })

  it('shows a file written, Python run, and a file read', () => {
    expect(output).toMatch(
      /write \/workspace\/primes\.py\n.*\$ python3 .*\n +2 3 5 7 .* 59\n.*read \/workspace\/primes\.txt\n +2 3 5 7 .* 59\n/,
    )
  })

  it('gives the time of each step and says what to type next', () => {
    expect(output.match(/^ *\d+\.\d ms {2}/gm)?.length).toBeGreaterThanOrEqual(8)
    expect(output).toMatch(/Next:\n {2}\.\/sandglass new/)
  })

  it('leaves nothing in the home folder and no folder of its own', () => {
    expect(readdirSync(folder)).toEqual([])
  })
})
