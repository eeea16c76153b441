// Where the program is that runs as PID 1 of every sandbox.
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export type RunnerBinary = {
  path: string
  /** What brings it when it is missing. */
  fix: string
}

/** An installed package has one for each machine; a clone has the one that was built there. */
export function findRunner(): RunnerBinary {
  const packed = new URL('../runner/', import.meta.url)
  if (existsSync(packed))
    return {
      path: fileURLToPath(new URL(`linux-${process.arch}`, packed)),
      fix: 'install @sandglass/daemon again, on x64 or arm64',
    }
  return { path: fileURLToPath(new URL('../../../runner/bin/runner', import.meta.url)), fix: 'tools/dev setup' }
}
