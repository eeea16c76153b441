import { SandglassError } from '@sandglass/contract/tables'
import { expect, test } from 'vitest'
import { loadCommand } from '../commands.ts'
import { withHelp } from './next-step.ts'

test('a refused field is named by its flag, as it was written', async () => {
  const command = await loadCommand('new')
  const message = async (issue: string, ...argv: string[]) => {
    const error = new SandglassError('INVALID_REQUEST', { issue }, { message: issue })
    return ((await withHelp(error, { name: 'new', command, argv }, {})) as Error).message
  }
  expect(await message('memory_mb must be 256 to 8192, not 1', '--memory-mb', '1')).toBe('--memory-mb must be 256 to 8192, not 1')
  expect(await message('nothing of this', '--memory-mb', '1')).toBe('nothing of this')
})
