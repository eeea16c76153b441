import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CliHome, SANDGLASS } from './cli-home.ts'
import { Tmux } from './tmux.ts'

let cli: CliHome

beforeAll(async () => {
  cli = await CliHome.open()
  expect(await cli.run(['new', 'box'])).toMatchObject({ code: 0 })
  await cli.run(['exec', 'box', '-c', 'mkdir -p src "my dir/sub" && touch src/main.ts'])
  await mkdir(join(cli.home, 'place/folder'), { recursive: true })
  await writeFile(join(cli.home, 'place/a file'), '')
})
afterAll(() => cli.close())

const candidates = async (...words: string[]) =>
  (await cli.run(['__complete', ...words])).stdout
    .split('\n')
    .filter(Boolean)
    .map(line => line.split('\t')[0])

/** Completion gives up on a daemon that does not answer within a second; on a busy machine it is asked again. */
const offered = (...words: string[]) => expect.poll(() => candidates(...words))

describe('the candidates', () => {
  test('completion offers commands, flags and the names of sessions', async () => {
    expect(await candidates('re')).toEqual(['resume', 'renew', 'resize'])
    expect(await candidates('--quiet', 'ex')).toEqual(['exec'])
    expect(await candidates('exec', '--ti')).toEqual(['--timeout'])
    expect(await candidates('new', '--no-s')).toEqual(['--no-start'])
    await offered('exec', 'b').toEqual(['box'])
    expect(await candidates('exec', 'box', '')).toEqual([])
    expect(await candidates('rm', 'box', '')).toEqual([])
    expect(await candidates('completion', '')).toEqual(['bash', 'zsh', 'fish'])
  })

  test('after a session, kill and logs offer its processes', async () => {
    await cli.run(['exec', '-d', 'box', '--tag', 'web', '--', 'sleep', '1000'])
    await offered('kill', 'b').toEqual(['box'])
    await offered('kill', 'box', '').toEqual([expect.stringMatching(/^\d+$/), 'web'])
    await offered('logs', 'box', 'w').toEqual(['web'])
    expect(await candidates('kill', 'box', '-s', 'TE')).toEqual(['TERM'])
  })

  test('a flag with known values offers them', async () => {
    expect(await candidates('new', '--backend', '')).toContain('oci')
    expect(await candidates('new', '--network', 'no')).toEqual(['none'])
    expect(await candidates('new', '--backend=o')).toEqual(['--backend=oci'])
    expect(await candidates('exec', 'box', '--user', '')).toEqual(['sandbox', 'root'])
    expect(await candidates('serve', '--log-level', 'd')).toEqual(['debug'])
    expect(await candidates('new', '--image', '')).toEqual([])
    expect(await candidates('new', '--runtime', '')).toEqual(['crun', 'runc'])
    expect(await candidates('new', '--network', 'b')).toEqual(['bridge'])
    expect(await candidates('new', '--mount', '')).toEqual([':files'])
    expect(await candidates('new', '--nested')).toEqual(['--nested-virt'])
  })

  test('cp offers sessions, files in them and files of this machine, for each source and the target', async () => {
    await offered('cp', '').toEqual(['box:', ':files'])
    await offered('cp', 'box:s').toEqual(['box:src/'])
    await offered('cp', 'box:/workspace/src/').toEqual(['box:/workspace/src/main.ts'])
    await offered('cp', 'box:src', '').toEqual(['box:', ':files'])
    await offered('cp', './x', './y', '').toEqual(['box:', ':files'])
  })

  test('without a daemon nothing is offered, and no daemon is started', async () => {
    const HOME = join(cli.home, 'nobody')
    const asked = await cli.run(['__complete', 'exec', ''], { env: { HOME } })
    expect(asked).toMatchObject({ code: 0, stdout: '', stderr: '' })
  })
})

/** Lines before and after Tab. The last typed character shows where the cursor is: a space follows a complete word. */
const LINES = [
  ['sandglass new --backend mic', 'sandglass new --backend microvm .'],
  ['sandglass new --backend=mic', 'sandglass new --backend=microvm .'],
  ['sandglass new --network no', 'sandglass new --network none .'],
  ['sandglass shell b', 'sandglass shell box .'],
  ['sandglass cp b', 'sandglass cp box:.'],
  ['sandglass cp box:src/m', 'sandglass cp box:src/main.ts .'],
  ['sandglass cp box:my', String.raw`sandglass cp box:my\ dir/.`],
  [String.raw`sandglass cp box:my\ dir/s`, String.raw`sandglass cp box:my\ dir/sub/.`],
  ['sandglass cp box: a', String.raw`sandglass cp box: a\ file .`],
  ['sandglass cp fol', 'sandglass cp folder/.'],
  ['sandglass --config ~/place/fol', 'sandglass --config ~/place/folder/.'],
] as const

const SHELLS = {
  bash: { load: 'source <(sandglass completion bash)', prompt: "PS1='now$ '" },
  zsh: { load: 'exec zsh -f', prompt: "PS1='now$ '; source <(sandglass completion zsh)" },
  'zsh with a folder of functions': {
    load: 'mkdir -p ~/functions; sandglass completion zsh > ~/functions/_sandglass; exec zsh -f',
    prompt: "fpath=(~/functions $fpath); autoload -Uz compinit; compinit -i; PS1='now$ '",
  },
  fish: {
    load: 'exec fish --no-config --private',
    prompt:
      "function fish_prompt; echo -n 'now$ '; end; set -g fish_autosuggestion_enabled 0; sandglass completion fish | source",
  },
} as const

describe.each(Object.keys(SHELLS) as (keyof typeof SHELLS)[])('Tab in %s', name => {
  test('completes the typed word as far as it is unique', { timeout: 120_000 }, async () => {
    const { load, prompt } = SHELLS[name]
    const PATH = `${dirname(SANDGLASS)}:${cli.env.PATH}`
    using tmux = new Tmux({ ...cli.env, PATH }, { cols: 100, rows: 30 })
    tmux.line(`cd ~/place; ${load}`)
    tmux.line(`${prompt}; clear`)
    await tmux.shows(/^now\$\s*$/m)
    for (const [typed, completed] of LINES) {
      tmux.text(typed)
      tmux.key('Tab')
      tmux.text('.')
      await tmux.shows(new RegExp(`^now\\$ ${completed.replace(/[\\.~$]/g, String.raw`\$&`)}$`, 'm'))
      tmux.key('C-u')
    }
  })
})
