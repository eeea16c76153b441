import { SandglassError } from '@sandglass/contract/tables'
import { expect, test } from 'vitest'
import { loadCommand } from './commands.ts'
import { withHelp } from './next-step.ts'

test('a value that is almost one of those that a flag takes is answered with it', async () => {
  const command = await loadCommand('new')
  const message = async (issue: string, ...argv: string[]) => {
    const error = new SandglassError('INVALID_REQUEST', { issue }, { message: issue })
    return ((await withHelp(error, { name: 'new', command, argv }, {})) as Error).message
  }
  const must = 'must be one of "auto", "oci", "docker", "microvm"'
  expect(await message(`backend ${must}`, '--backend', 'dokcer')).toBe(`--backend ${must}; did you mean docker?`)
  expect(await message(`backend ${must}`, 'box', '--backend=OCI')).toBe(`--backend ${must}; did you mean oci?`)
  expect(await message(`backend ${must}`, '--backend', 'podman')).toBe(`--backend ${must}`)
  expect(await message('memory_mb must be 256 to 8192, not 1', '--memory-mb', '1')).toBe('--memory-mb must be 256 to 8192, not 1')
  expect(await message('nothing of this', '--backend', 'dokcer')).toBe('nothing of this')
})
