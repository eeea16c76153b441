import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliHome, SANDGLASS } from './cli-home.ts'
import { deadline } from './deadline.ts'
import { Tmux } from './tmux.ts'

let cli: CliHome

beforeAll(async () => {
  cli = await CliHome.open()
  expect(await cli.run(['new', 'b'])).toMatchObject({ code: 0 })
})
afterAll(() => cli.close())

const run = (...args: string[]) => cli.run(args)
const terminal = () => new Tmux({ ...cli.env, SG: SANDGLASS }, { cols: 100, rows: 30 })
const json = async (...args: string[]) => JSON.parse((await run(...args, '--json')).stdout)

/** Starts a program with exec -d and returns its pid. */
async function detached(flags: string[], ...argv: string[]): Promise<string> {
  const started = await run('exec', '-d', 'b', ...flags, '--', ...argv)
  expect(started).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\n$/), stderr: '' })
  return started.stdout.trim()
}

const isRunning = async (pid: string) => ((await json('ps', 'b')) as { pid: number }[]).some(row => row.pid === Number(pid))

test('exec -d prints a pid, and logs shows the output of the program, also after its end', async () => {
  const pid = await detached(['--tag', 'web'], 'sh', '-c', 'echo out; echo err >&2; read line; echo "got $line"; exit 3')
  await deadline('its end', async () => !(await isRunning(pid)))
  expect(await run('logs', 'b', pid)).toMatchObject({ code: 0, stdout: 'out\ngot \n', stderr: 'err\n' })
  expect((await run('logs', 'b', 'web')).stdout).toBe('out\ngot \n')
  const lines = (await run('logs', 'b', pid, '--json')).stdout.trim().split('\n')
  expect(JSON.parse(lines.at(-1) ?? '')).toEqual({ exit_code: 3, timed_out: false, limit_hit: null })
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ stream: expect.any(String), data_base64: expect.any(String) })
})

test('logs, attach and ps --all report that the memory limit ended a detached program', async () => {
  const pid = await detached([], 'python3', '-c', 'b = bytearray(700 << 20)')
  const stderr = expect.stringMatching(
    /session b reached its memory limit of 512 MiB, .*\n {2}next: sandglass resize b --memory 1g, or/,
  )
  expect(await run('logs', 'b', pid, '-f')).toMatchObject({ code: 0, stderr })
  expect(await run('logs', 'b', pid)).toMatchObject({ code: 0, stderr })
  expect(await run('attach', 'b', '--pid', pid)).toMatchObject({ code: 137, stderr })
  expect((await run('ps', 'b', '--all')).stdout).toMatch(new RegExp(`^ *${pid} .*exited 137 \\(memory limit\\)`, 'm'))
})

test('logs shows the program that was started last without waiting for its end; with -f it waits', async () => {
  await detached([], 'sh', '-c', 'echo older')
  const pid = await detached(['--stdin'], 'sh', '-c', 'echo first; read line; echo "then $line"')
  await run('exec', 'b', '--', 'echo', 'not detached')
  await deadline('the first line', async () => (await run('logs', 'b')).stdout === 'first\n')
  const following = cli.run(['logs', 'b', '-f'], {
    onStdout: text => {
      if (text === 'first\n') void cli.run(['attach', 'b', '--pid', pid], { input: 'more\n' })
    },
  })
  expect(await following).toMatchObject({ code: 0, stdout: 'first\nthen more\n' })
})

test('logs of a session without a detached program points to the boot log', async () => {
  expect(await run('new', 'c')).toMatchObject({ code: 0 })
  expect(await run('logs', 'c')).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining('--boot') })
  expect(await run('logs', 'c', '--boot')).toMatchObject({ code: 0 })
  expect(await run('logs', 'c', '77')).toMatchObject({ code: 4, stderr: expect.stringContaining('no process 77') })
  expect(await run('logs', 'c', '77', '--boot')).toMatchObject({ code: 2 })
})

test('ps lists all processes with their shell or tag, and with --all also ended ones', async () => {
  await run('exec', 'b', '-c', 'sleep 1001 &')
  const pid = await detached(['--tag', 'job'], 'sleep', '1002')
  const ps = async () => (await run('ps', 'b')).stdout
  expect(await ps()).toMatch(/^PID +USER +STATE +CPU +MEM +AGE +NOTE +COMMAND$/m)
  // The shell may still print its prompt, and the programs may still be starting.
  await expect.poll(ps).toMatch(/^\d+ +sandbox +sleeping .* shell main +bash/m)
  await expect.poll(ps).toMatch(/^\d+ +sandbox .* sleep 1001$/m)
  await expect.poll(ps).toMatch(new RegExp(`^${pid} +sandbox +sleeping .* job +sleep 1002$`, 'm'))
  expect(await json('ps', 'b')).toContainEqual(expect.objectContaining({ pid: Number(pid), tag: 'job', user: 'sandbox' }))
  await run('exec', 'b', '--', 'sh', '-c', 'exit 7')
  expect((await run('ps', 'b')).stdout).not.toContain('exited')
  expect((await run('ps', 'b', '-a')).stdout).toMatch(/^\d+ +sandbox +exited 7 +.* sh -c exit 7$/m)
})

test('the command line of a process cannot harm the terminal that ps prints to', async () => {
  const pid = await detached([], 'bash', '-c', String.raw`exec -a $'\033]0;owned\007\nname' sleep 1003`)
  await deadline('its name', async () => (await run('ps', 'b')).stdout.includes('owned'))
  const line = (await run('ps', 'b')).stdout.split('\n').find(text => text.includes('owned'))
  expect(line).toContain(String.raw`\x1b]0;owned\x07\nname 1003`)
  await run('kill', 'b', pid)
})

test.each([[[]], [['-s', 'TERM']], [['-s', 'SIGTERM']], [['--signal', 'term']], [['-s', '15']]])(
  'kill %j ends a program',
  async flags => {
    const pid = await detached([], 'sleep', '1004')
    expect(await run('kill', 'b', pid, ...flags)).toMatchObject({ code: 0, stdout: '', stderr: '' })
    await deadline('its end', async () => !(await isRunning(pid)))
    expect(await run('attach', 'b', '--pid', pid)).toMatchObject({ code: 143 })
  },
)

test('kill takes tags and processes of a shell, and reports mistakes', async () => {
  await detached(['--tag', 'victim'], 'sleep', '1005')
  await run('exec', 'b', '-c', 'sleep 1006 & echo $! > pid')
  const job = (await run('exec', 'b', '--', 'cat', 'pid')).stdout.trim()
  expect(await json('kill', 'b', 'victim', job, '-s', 'KILL')).toEqual({
    signal: 'KILL',
    signalled: [expect.any(Number), Number(job)],
  })
  await deadline('their end', async () => !/sleep 100[56]/.test((await run('ps', 'b')).stdout))
  expect(await run('kill', 'b', 'nobody')).toMatchObject({ code: 4, stderr: expect.stringContaining('no process nobody') })
  expect(await run('kill', 'b', '1')).toMatchObject({ code: 4 })
  expect(await run('kill', 'b', job, '-s', 'SEGV')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('use one of HUP, INT'),
  })
  expect(await run('kill', 'b')).toMatchObject({ code: 2, stderr: expect.stringContaining('PID is missing') })
})

test('attach --pid prints the output so far, passes input on and exits with the code of the process', async () => {
  const pid = await detached(['--stdin', '--tag', 'sum'], 'sh', '-c', 'echo ready; read a b; exit $((a + b))')
  expect(await cli.run(['attach', 'b', '--pid', 'sum'], { input: '4 5\n' })).toMatchObject({
    code: 9,
    stdout: 'ready\n',
    stderr: '',
  })
  expect(await cli.run(['attach', 'b', '--pid', pid], { input: 'late\n' })).toMatchObject({ code: 9, stdout: 'ready\n' })
  expect(await run('attach', 'b', '--pid', '4000000')).toMatchObject({ code: 125, stderr: expect.stringContaining('no process') })
})

test('attach opens the shell, and with --pid a program on a terminal, which ~. leaves running', async () => {
  using tmux = terminal()
  tmux.line('"$SG" attach b')
  await tmux.shows(/b:\S*\$$/m)
  tmux.line('V=kept; echo "$V$((40 + 2))"')
  await tmux.shows(/^kept42$/m)
  tmux.key('Enter')
  tmux.text('~.')
  await tmux.shows(/detached; the shell keeps running/)
  const pid = await detached(['-t', '--tag', 'prompt'], 'bash', '--norc', '--noprofile')
  tmux.line('clear; "$SG" attach b --pid prompt')
  await tmux.shows(/^bash-\S+[$#]/m)
  tmux.line('stty size')
  await tmux.shows(/^30 100$/m)
  tmux.key('Enter')
  tmux.text('~.')
  await tmux.shows(new RegExp(`detached; process ${pid} keeps running`))
  tmux.line('clear; "$SG" attach b --pid prompt')
  await tmux.shows(/^bash-\S+[$#]/m)
  tmux.line('exit 6')
  await tmux.shows(/^host\$$/m)
  tmux.line('echo "code $?"')
  await tmux.shows(/^code 6$/m)
})

test('stats prints the use of all running sessions, or of the named ones', async () => {
  const { code, stdout } = await run('stats')
  expect(code).toBe(0)
  expect(stdout).toMatch(/^NAME +CPU +MEM +PIDS +DISK +UPTIME$/m)
  expect(stdout).toMatch(/^b +[\d.]+% +[\d.]+ MiB \/ 512\.0 MiB +\d+ \/ 256 +[\d.]+ \wiB \/ [\d.]+ \wiB +/m)
  expect(await run('stats', 'nobody')).toMatchObject({ code: 4, stdout: '' })
  expect(JSON.parse((await run('stats', 'b', '--json')).stdout)).toMatchObject({
    name: 'b',
    status: 'running',
    cpu_percent: expect.any(Number),
    memory_limit: 512 * 1024 * 1024,
  })
})

test('stats on a terminal refreshes the table in place until Ctrl-C', async () => {
  using tmux = terminal()
  const pid = await detached([], 'sh', '-c', 'while :; do :; done')
  tmux.line('"$SG" stats b')
  await tmux.shows(/^b +[1-9][\d.]+% /m)
  const uptime = () => /^b .* (\d+)s$/m.exec(tmux.screen())?.[1]
  const first = uptime()
  await deadline('another round', () => uptime() !== first)
  // The screen may be seen in the middle of a refresh.
  await expect.poll(() => tmux.screen().match(/^NAME +CPU/gm)).toHaveLength(1)
  tmux.key('C-c')
  await tmux.shows(/^host\$$/m)
  tmux.line('echo "code $?"')
  await tmux.shows(/^code 0$/m)
  expect(tmux.value('cursor_flag')).toBe('1')
  await run('kill', 'b', pid, '-s', 'KILL')
})
