import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { COMMAND_NAMES } from '../../packages/cli/src/commands.ts'
import { manPage } from './man.ts'

const run = promisify(execFile)
const PAGE = 'packages/cli/man/sandglass.1'

it('the man page is one that mandoc finds nothing wrong with', async () => {
  const { stdout } = await run('mandoc', ['-T', 'lint', '-W', 'warning', PAGE]).catch((error: { stdout: string }) => error)
  // A date would make the page another one each day.
  expect(stdout.split('\n').filter(line => line !== '' && !line.includes('missing date'))).toEqual([])
})

it('the man page names every command, and shows quotes, dashes and examples as they are', async () => {
  const { stdout } = await run('mandoc', ['-T', 'ascii', '-O', 'width=120', PAGE])
  // biome-ignore lint/suspicious/noControlCharactersInRegex: bold is a letter, a backspace and the letter again
  const page = stdout.replace(/.\x08/g, '')
  for (const name of COMMAND_NAMES) expect(page).toMatch(new RegExp(`^ +sandglass ${name}$`, 'm'))
  expect(page).toContain('sandglass exec -d NAME [--tag TAG] -- PROGRAM [ARGUMENT]...')
  expect(page).toMatch(/^ +sandglass forward calm-otter 8000 {8}127\.0\.0\.1:8000 leads to its port 8000$/m)
})

it('the man page has the version that it is made for', async () => {
  expect(await manPage('9.8.7')).toContain('"sandglass 9.8.7"')
})
