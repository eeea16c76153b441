// crun compiles the seccomp profile at every start, about 3 ms. What it compiled at the first start is kept and handed back at later ones.
import { createHash } from 'node:crypto'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing } from './record.ts'
import type { SeccompProfile } from './seccomp.ts'

export class CompiledSeccomp {
  readonly #path: string
  #compiled: Buffer | null = null

  /** Another profile or another version of the runtime has another file. */
  constructor(runDir: string, profile: SeccompProfile, runtimeVersion: string) {
    const key = createHash('sha256')
      .update(JSON.stringify([profile, runtimeVersion]))
      .digest('hex')
      .slice(0, 16)
    this.#path = join(runDir, `seccomp-${key}.bpf`)
  }

  async load(): Promise<void> {
    this.#compiled = await readIfThere(this.#path)
  }

  get(): Buffer | null {
    return this.#compiled
  }

  /** Takes over what the runtime left in its records of a machine that it started from the profile itself. */
  async keep(recordsDir: string): Promise<void> {
    if (this.#compiled !== null) return
    const compiled = await readIfThere(join(recordsDir, 'seccomp.bpf'))
    // Whole 8-byte instructions, or it is something else.
    if (compiled === null || compiled.length === 0 || compiled.length % 8 !== 0) return
    await writeFile(`${this.#path}.new`, compiled, { mode: 0o600 })
    await rename(`${this.#path}.new`, this.#path)
    this.#compiled = compiled
  }
}

async function readIfThere(path: string): Promise<Buffer | null> {
  return await readFile(path).catch(error => {
    if (isMissing(error)) return null
    throw error
  })
}
