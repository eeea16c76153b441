// For tests: a disk whose power can be cut. What was not flushed by then is lost.
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { temporaryFolder } from './daemon.fixture.ts'

/** Only root can mount. */
export const canCutPower = process.getuid?.() === 0

export interface CuttableDisk {
  readonly folder: string
  /** The folder as it is after a power cut at this moment. */
  cut(): Promise<string>
}

export async function cuttableDisk(): Promise<CuttableDisk> {
  const place = await temporaryFolder()
  const [image, folder, after] = [join(place, 'disk'), join(place, 'before'), join(place, 'after')]
  for (const dir of [folder, after]) mkdirSync(dir)
  execFileSync('truncate', ['--size=64M', image])
  execFileSync('mkfs.ext4', ['-q', image])
  mount(image, folder)
  return {
    folder,
    async cut() {
      // The journal commits names before the content of the files is flushed; any fsync commits it.
      await using other = await open(join(folder, 'other'), 'w')
      await other.sync()
      copyFileSync(image, `${image}-after`)
      mount(`${image}-after`, after)
      return after
    },
  }
}

/** The kernel commits nothing by itself for ten minutes. */
function mount(image: string, folder: string): void {
  execFileSync('mount', ['-o', 'loop,commit=600', image, folder])
  onTestFinished(() => {
    execFileSync('umount', [folder])
    rmSync(image)
  })
}
