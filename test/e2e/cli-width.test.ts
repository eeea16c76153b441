import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliHome, SANDGLASS, WITHOUT_KVM } from './cli-home.ts'
import { Tmux } from './tmux.ts'

const LONG = `a${'-very-long-name'.repeat(2)}-for-a-box`
let cli: CliHome

beforeAll(async () => {
  cli = await CliHome.open()
  expect(await cli.run(['new', LONG])).toMatchObject({ code: 0 })
})
afterAll(() => cli.close())

const COMMANDS = ['help', 'help new', 'help serve', 'doctor', 'config', 'ls', `inspect ${LONG}`]

test.each(COMMANDS)('the output of %s fits a terminal of 80 columns', async command => {
  using tmux = new Tmux(
    { ...cli.env, ...WITHOUT_KVM, SG: SANDGLASS, SANDGLASS_BACKENDS_OCI_RUNTIME: '/no/such/runtime/anywhere' },
    { cols: 80, rows: 24 },
  )
  tmux.line(`clear; "$SG" ${command}; echo "en"d`)
  await tmux.shows(/^end$/m)
  expect(tmux.printedLines().filter(line => line.length > 80)).toEqual([])
})

test('a narrow table of sessions shows whole names, and a wide one and --json also show ids', async () => {
  using tmux = new Tmux({ ...cli.env, SG: SANDGLASS }, { cols: 80, rows: 24 })
  tmux.line('clear; "$SG" ls; echo "en"d')
  await tmux.shows(/^end$/m)
  expect(tmux.screen()).toContain(`${LONG}  running  host`)
  expect((await cli.run(['ls'])).stdout).toMatch(/^sess_[a-z0-9]{16} {2}a-very/m)
  expect(JSON.parse((await cli.run(['ls', '--json'])).stdout)[0].id).toMatch(/^sess_[a-z0-9]{16}$/)
})
