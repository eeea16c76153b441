// The guest's system disk and kernel, made once and kept.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { capture, tail } from '../test/stage.ts'

export type SystemDisk = { disk: string; kernel: string }

const SCRIPT = 'tools/guest/make-system.sh'

export async function systemDisk(cache: string): Promise<SystemDisk> {
  const recipe = createHash('sha256').update(readFileSync(SCRIPT)).digest('hex').slice(0, 16)
  const folder = join(cache, `system-${recipe}`)
  if (!existsSync(folder)) await make(cache, folder)
  return { disk: join(folder, 'disk'), kernel: join(folder, 'kernel') }
}

async function make(cache: string, folder: string): Promise<void> {
  mkdirSync(cache, { recursive: true })
  for (const old of readdirSync(cache)) if (old.startsWith('system-')) rmSync(join(cache, old), { recursive: true })
  mkdirSync(`${folder}.new`)
  const { code, output } = await capture('guest-system', [SCRIPT, `${folder}.new`])
  if (code !== 0) throw new Error(`the guest's system could not be made:\n${tail(output, 30)}`)
  renameSync(`${folder}.new`, folder)
}
