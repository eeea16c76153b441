import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { CliHome, isAlive, WITHOUT_KVM } from './cli-home.ts'
import { deadline } from './deadline.ts'

describe('sandglass shutdown', () => {
  let cli: CliHome
  beforeEach(async () => {
    cli = await CliHome.open()
  })
  afterEach(() => cli.close())

  const configure = (text: string) => writeFileSync(join(cli.home, '.sandglass/config.yaml'), text, { mode: 0o600 })

  it('succeeds when no daemon runs', async () => {
    expect(await cli.run(['shutdown'])).toMatchObject({ code: 0, stderr: expect.stringContaining('no daemon runs') })
  })

  it('stops the daemon and waits for its end; sessions and their shells go on', async () => {
    await cli.run(['new', 'demo'])
    await cli.run(['exec', 'demo', '-c', 'x=41'])
    const pid = cli.daemonPid
    expect(await cli.run(['shutdown'])).toMatchObject({ code: 0, stderr: 'stopped the daemon; sessions keep running\n' })
    await deadline('the pid is free', () => !isAlive(pid))
    expect(await cli.run(['exec', 'demo', '-c', 'echo $((x + 1))'])).toMatchObject({ code: 0, stdout: '42\n' })
  })

  it('makes a running exec fail with a hint that its command may still run', async () => {
    await cli.run(['new', 'demo'])
    const begun = Promise.withResolvers<void>()
    const program = Promise.withResolvers<void>()
    const inShell = cli.run(['exec', 'demo', '-c', 'echo begun; sleep 60'], { onStdout: () => begun.resolve() })
    const alone = cli.run(['exec', 'demo', '--', 'sh', '-c', 'echo begun; sleep 60'], { onStdout: () => program.resolve() })
    await Promise.all([begun.promise, program.promise])
    await cli.run(['shutdown'])
    expect(await inShell).toMatchObject({ code: 125, stderr: expect.stringContaining('`sandglass interrupt demo` ends it') })
    expect(await alone).toMatchObject({ code: 125, stderr: expect.stringMatching(/`sandglass attach demo --pid \d+` attaches/) })
    expect((await cli.run(['ps', 'demo'])).stdout.match(/sleep 60/g)?.length).toBeGreaterThan(1)
  })

  it('applies a changed configuration; until then commands print a note that the daemon has not read it', async () => {
    await cli.run(['ls'])
    configure('allowed_images: []\n')
    const later = Date.now() / 1000 + 1
    utimesSync(join(cli.home, '.sandglass/config.yaml'), later, later)
    const note = expect.stringContaining('was changed after the daemon started: `sandglass shutdown`')
    expect(await cli.run(['inspect', 'nobody'])).toMatchObject({ code: 4, stderr: note })
    expect(await cli.run(['config'])).toMatchObject({ code: 0, stderr: note })
    expect(await cli.run(['new', 'noted', '--no-start'])).toMatchObject({ code: 0, stderr: note })
    expect(await cli.run(['rm', '-f', 'noted'])).toMatchObject({ code: 0, stderr: note })
    expect((await cli.run(['image', 'rm', 'nope:1'])).stderr.match(/note:/g)).toHaveLength(1)
    expect((await cli.run(['image', 'ls'])).stderr).not.toContain('note:')
    expect((await cli.run(['doctor'], { env: WITHOUT_KVM })).stdout).toMatch(
      /weaker +daemon: running .* older configuration .*\n +fix: sandglass shutdown\n/,
    )
    utimesSync(join(cli.home, '.sandglass/config.yaml'), 0, 0)
    const before = cli.daemonPid
    expect(await cli.run(['shutdown', '--restart'])).toMatchObject({ code: 0, stderr: expect.stringContaining('restarted') })
    expect(cli.daemonPid).not.toBe(before)
    expect(await cli.run(['new', 'demo'])).toMatchObject({ code: 3, stderr: expect.stringContaining('allowed_images') })
    expect((await cli.run(['inspect', 'nobody'])).stderr).not.toContain('note:')
  })

  it('stops the daemon of the default folder if the configuration file is refused, and ignores the file', async () => {
    await cli.run(['ls'])
    const pid = cli.daemonPid
    configure('data_dir: /elsewhere\n')
    chmodSync(join(cli.home, '.sandglass/config.yaml'), 0o644)
    expect(await cli.run(['ls'])).toMatchObject({ code: 2, stderr: expect.stringContaining('has mode 644') })
    expect(await cli.run(['shutdown', '--restart'])).toMatchObject({ code: 2 })
    expect(isAlive(pid)).toBe(true)
    expect(await cli.run(['shutdown'])).toMatchObject({ code: 0, stderr: expect.stringContaining('stopped the daemon') })
    await deadline('the daemon is gone', () => !isAlive(pid))
    expect(await cli.run(['shutdown'])).toMatchObject({ code: 2, stderr: expect.stringContaining('chmod 600') })
    rmSync(join(cli.home, '.sandglass/config.yaml'))
  })

  it('never kills a process that reuses the pid of a dead daemon', async () => {
    const other = spawn('sleep', ['60'], { stdio: 'ignore' })
    try {
      mkdirSync(cli.dataDir, { recursive: true, mode: 0o700 })
      writeFileSync(join(cli.dataDir, 'lock.pid'), String(other.pid), { mode: 0o600 })
      expect(await cli.run(['shutdown'])).toMatchObject({ code: 0, stderr: expect.stringContaining('no daemon runs') })
      expect(other.exitCode ?? other.signalCode).toBeNull()
    } finally {
      const ended = once(other, 'exit')
      other.kill()
      await ended
    }
    await cli.run(['ls']) // a daemon of its own, for the end to find
  })
})
