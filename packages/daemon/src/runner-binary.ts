// Where the two Go programs are: the runner, which is PID 1 of every sandbox, and the launcher, which works on the host (beside the runner).
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { launcherBeside } from './backends/launcher/program.ts'

export type RunnerBinary = {
  path: string
  /** What brings it when it is missing. */
  fix: string
}

/** An installed package has a folder for each architecture; a clone has the programs that were built there. */
export function findRunner(): RunnerBinary {
  const packed = new URL('../runner/', import.meta.url)
  if (existsSync(packed))
    return {
      path: fileURLToPath(new URL(`linux-${process.arch}/runner`, packed)),
      fix: 'install @sandglass/daemon again, on x64 or arm64',
    }
  return { path: fileURLToPath(new URL('../../../runner/bin/runner', import.meta.url)), fix: 'tools/dev setup' }
}

/** The path of the first of the two programs that is missing, or null. */
export function missingProgram({ path }: RunnerBinary): string | null {
  return [path, launcherBeside(path)].find(program => !existsSync(program)) ?? null
}
