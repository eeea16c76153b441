import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliHome, isAlive, SANDGLASS } from './cli-home.ts'
import { deadline } from './deadline.ts'
import { Tmux } from './tmux.ts'

let cli: CliHome

beforeAll(async () => {
  cli = await CliHome.open()
  expect(await cli.run(['new', 'box'])).toMatchObject({ code: 0 })
})
afterAll(() => cli.close())

const terminal = () => new Tmux({ ...cli.env, SG: SANDGLASS }, { cols: 100, rows: 30 })

test('a shell has the size of the terminal and follows it', async () => {
  using tmux = terminal()
  tmux.line('"$SG" shell box')
  await tmux.shows(/~\. at the start of a line detaches/)
  await tmux.shows(/box:\S*\$$/m)
  tmux.line('stty size')
  await tmux.shows(/^30 100$/m)
  tmux.resize(80, 20)
  await deadline('the window is resized', () => tmux.value('window_width') === '80')
  tmux.line('until [ "$(stty size)" = "20 80" ]; do sleep 0.1; done; echo re"sized"')
  await tmux.shows(/^resized$/m)
})

test('a shell that was started without -t ends at once, and a note explains it', async () => {
  using tmux = terminal()
  tmux.line('"$SG" exec box -- bash; echo en"ded"')
  await tmux.shows(/^note: stdin of bash is empty; use -t for a terminal\nended$/m)
})

test('Ctrl-C and Ctrl-Z are sent to the session, and the exit code is that of the shell', async () => {
  using tmux = terminal()
  tmux.line('"$SG" shell box --shell keys')
  await tmux.shows(/box:\S*\$$/m)
  // Wait for the program's own output: keys that are typed before it has the terminal go to the shell.
  tmux.line(`bash -c 'echo start"ed"; exec sleep 1000'`)
  await tmux.shows(/^started$/m)
  tmux.key('C-c')
  tmux.line('echo aft"er"')
  await tmux.shows(/^after$/m)
  tmux.line(`bash -c 'echo a"gain"; exec sleep 1000'`)
  await tmux.shows(/^again$/m)
  tmux.key('C-z')
  await tmux.shows(/Stopped/)
  tmux.line('fg')
  await tmux.shows(/^bash -c .*sleep 1000'$/m)
  tmux.key('C-c')
  tmux.line('exit 7')
  await tmux.shows(/^host\$$/m)
  tmux.line('echo "code $?"')
  await tmux.shows(/^code 7$/m)
})

test('detaching leaves the shell running and restores the terminal', async () => {
  using tmux = terminal()
  tmux.line('stty -g > "$HOME/before"; "$SG" shell box --shell detach')
  await tmux.shows(/box:\S*\$$/m)
  tmux.line(String.raw`printf '\033[?1049h\033[?1000h\033[?25l'; V=kept`)
  await deadline('the other screen is on', () => tmux.value('alternate_on') === '1')
  tmux.key('Enter')
  tmux.text('~.')
  await tmux.shows(/detached; the shell keeps running/)
  tmux.line('stty -g > "$HOME/after"; echo do"ne"')
  await tmux.shows(/^done$/m)
  expect(await readFile(join(cli.home, 'after'), 'utf8')).toBe(await readFile(join(cli.home, 'before'), 'utf8'))
  expect([tmux.value('alternate_on'), tmux.value('mouse_any_flag'), tmux.value('cursor_flag')]).toEqual(['0', '0', '1'])
  expect((await cli.run(['exec', 'box', '--shell', 'detach', '-c', 'echo $V'])).stdout).toBe('kept\n')
})

test.each(['TERM', 'HUP', 'INT', 'QUIT'])('SIG%s restores the terminal before the command line ends', async signal => {
  using tmux = terminal()
  tmux.line('stty -g > "$HOME/before"; "$SG" shell box')
  await tmux.shows(/box:\S*\$$/m)
  const pane = Number(tmux.value('pane_pid'))
  const child = (await readFile(`/proc/${pane}/task/${pane}/children`, 'utf8')).trim().split(' ').map(Number)[0] ?? 0
  process.kill(child, `SIG${signal}`)
  await deadline('the command line ends', () => !isAlive(child))
  tmux.line('stty -g > "$HOME/after"; echo do"ne"')
  await tmux.shows(/^done$/m)
  expect(await readFile(join(cli.home, 'after'), 'utf8')).toBe(await readFile(join(cli.home, 'before'), 'utf8'))
})

test('a program on a terminal gets the size of our terminal', async () => {
  using tmux = terminal()
  tmux.line('"$SG" exec box -t -- sh -c "stty size; tty; exit 4"; echo "code $?"')
  await tmux.shows(/^30 100\s+\/dev\/pts\/\d+\s+code 4$/m)
})

test('output of a program cannot set the title of the terminal or leave it in another mode', async () => {
  using tmux = terminal()
  const before = tmux.value('pane_title')
  tmux.line(String.raw`"$SG" exec box -- printf '\033]0;owned\007\033[?1049h\033[31mred\033[0m end\n'`)
  await tmux.shows(/^red end$/m)
  expect([tmux.value('pane_title'), tmux.value('alternate_on')]).toEqual([before, '0'])
  tmux.line(String.raw`"$SG" exec box --raw -- printf '\033]0;asked\007done\n'`)
  await tmux.shows(/^done$/m)
  expect(tmux.value('pane_title')).toBe('asked')
})

test.each([
  ['a program', (text: string) => `-- printf '${text}'`],
  ['a line in the shell', (text: string) => `-c "printf '${text}'"`],
])('output of %s cannot change what the keys of the terminal send or make it answer', async (_, command) => {
  const typescript = join(cli.home, 'typescript')
  const hostile = String.raw`a\005\033[>4;2m\033[?1h\033=\033[>1u\033[?4mb\n`
  await promisify(execFile)('script', ['-qec', `"${SANDGLASS}" exec box ${command(hostile)}`, typescript], { env: cli.env })
  expect(await readFile(typescript, 'latin1')).toContain('\nab\r\n')
})

test('a daemon that is killed while a shell is open is started again, and the shell continues', async () => {
  using tmux = terminal()
  tmux.line('"$SG" shell box --shell survivor')
  await tmux.shows(/box:\S*\$$/m)
  tmux.line('X=still-here; echo s""et')
  // Keys that have not arrived are lost with the daemon.
  await tmux.shows(/^set$/m)
  process.kill(cli.daemonPid, 'SIGKILL')
  await tmux.shows(/attaching again/)
  tmux.key('Enter')
  await tmux.shows(/attaching again[\s\S]*box:\S*\$/)
  tmux.line('echo "=$X="')
  await tmux.shows(/^=still-here=$/m)
})

test('rm asks for confirmation, and any answer but yes keeps the session', async () => {
  await cli.run(['new', 'doomed'])
  using tmux = terminal()
  tmux.line('"$SG" rm doomed')
  await tmux.shows(/End session doomed and remove the files in it\? \[y\/N\]$/m)
  tmux.key('Enter')
  await tmux.shows(/nothing was removed/)
  tmux.line('"$SG" rm doomed')
  await tmux.shows(/nothing was removed[\s\S]*\[y\/N\]$/m)
  tmux.line('y')
  await tmux.shows(/^doomed$/m)
})

test('new --shell prints the name and opens a terminal in the session', async () => {
  using tmux = terminal()
  tmux.line('clear; "$SG" new direct --shell')
  await tmux.shows(/^attached to direct; ~\. at the start of a line detaches/m)
  await tmux.shows(/direct:\S*\$$/m)
  expect(tmux.screen()).not.toContain('sess_')
})

test('the third Ctrl-C kills a program that ignores it and restores the terminal', async () => {
  using tmux = terminal()
  tmux.line(`"$SG" exec box -- sh -c 'trap "echo no" INT; echo up; while :; do sleep 0.1; done'`)
  await tmux.shows(/^up$/m)
  tmux.key('C-c')
  await tmux.shows(/no$/m)
  tmux.key('C-c')
  await tmux.shows(/Ctrl-C once more kills it/)
  tmux.key('C-c')
  tmux.line('echo "code $?"')
  await tmux.shows(/^code 130$/m)
})

test('init asks for the keys that have an effect, shows the defaults in brackets, and keeps them at Enter', async () => {
  using tmux = terminal()
  const file = join(cli.home, 'asked.yaml')
  const init = `SANDGLASS_CONFIG=${file} "$SG" init`
  tmux.line(init)
  await tmux.shows(/^Default image \[host\]:$/m)
  tmux.line('debian:12')
  await tmux.shows(/^Data folder \[~\/\.sandglass\/data\]:$/m)
  tmux.key('Enter')
  await tmux.shows(/^Default agent \(claude, codex or opencode\) \[claude\]:$/m)
  tmux.line('codex')
  await tmux.shows(/^Key of Codex, an API key of OpenAI \[Enter keeps what is stored\]:$/m)
  tmux.line('sk-proj-typed0123456789')
  await tmux.shows(/wrote .*\nstored the key of Codex as the secret agent\.codex$/m)
  expect(tmux.screen()).not.toContain('typed0123456789')
  const written = await readFile(file, 'utf8')
  expect(written).toBe('default_image: debian:12\ndefault_agent: codex\n')
  tmux.line(`clear; ${init}`)
  await tmux.shows(/^Default image \[debian:12\]:$/m)
  tmux.key('Enter')
  await tmux.shows(/^Data folder .*:$/m)
  tmux.key('C-c')
  await tmux.shows(/\[~\/\.sandglass\/data\]:\s+host\$/)
  expect(await readFile(file, 'utf8')).toBe(written)
  tmux.line(`clear; ANTHROPIC_API_KEY=sk-ant-offered0123456789 ${init}`)
  await tmux.shows(/^Default image/m)
  tmux.key('Enter')
  await tmux.shows(/^Data folder/m)
  tmux.key('Enter')
  await tmux.shows(/^Default agent .* \[codex\]:$/m)
  tmux.line('claude')
  await tmux.shows(/^Store ANTHROPIC_API_KEY of the environment as the key of Claude Code\? \[y\/N\]$/m)
  tmux.line('y')
  await tmux.shows(/stored the key of Claude Code as the secret agent\.claude/)
})
