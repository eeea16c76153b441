import { SandglassError } from '@sandglass/contract/tables'
import { expect, test } from 'vitest'
import { loadCommand } from '../commands.ts'
import { withHelp } from './next-step.ts'

async function messageOf(name: 'new' | 'run', issue: string, argv: readonly string[]): Promise<string> {
  const error = new SandglassError('INVALID_REQUEST', { issue }, { message: issue })
  return ((await withHelp(error, { name, command: await loadCommand(name), argv }, {})) as Error).message
}

test('a refused field is named by its flag, as it was written', async () => {
  const message = (issue: string, ...argv: string[]) => messageOf('new', issue, argv)
  expect(await message('memory_mb must be 256 to 8192, not 1', '--memory-mb', '1')).toBe('--memory-mb must be 256 to 8192, not 1')
  expect(await message('policies.0 must be short', '--policy', 'X')).toBe('--policy must be short')
  expect(await message('secrets.1: is odd', '--secret', 'x')).toBe('--secret: is odd')
  expect(await message('policies.0: "X" is odd; policies.2: "Y" is odd; memory is short', '--policy', 'X')).toBe(
    '--policy "X" is odd; --policy "Y" is odd; memory is short',
  )
  expect(await message('nothing of this', '--memory-mb', '1')).toBe('nothing of this')
})

test('a flag without the unit of its field is found', async () => {
  const argv = ['-a', 'claude', '-p', 'x', '-t', '2d', '--max-cost', '0']
  expect(await messageOf('run', 'timeout_sec must be short', argv)).toBe('--timeout must be short')
  expect(await messageOf('run', 'max_cost_usd must be more', argv)).toBe('--max-cost must be more')
})
