// A runtime compiles the seccomp profile at every start: about 3 ms with crun, and 6 with runc. What it compiled at the first start is
// handed back at later ones.
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Runtime } from './runtimes.ts'

/**
 * By the runtime that compiled it; of one that is not known nothing is taken over. SECURITY: kept in memory alone. A file would be trusted at
 * every start, whatever a full disk or another program made of it.
 */
export class CompiledSeccomp {
  readonly #compiled = new Map<string, Buffer>()

  get({ runtime }: Runtime): Buffer | null {
    return this.#compiled.get(runtime) ?? null
  }

  /** Whether the launcher is to say what the runtime made of the profile. */
  wants({ runtime, kind }: Runtime): boolean {
    return (kind === 'crun' || kind === 'runc') && !this.#compiled.has(runtime)
  }

  /** Takes over what the runtime made of the profile when it started a machine. */
  keep(by: Runtime, compiled: Buffer): void {
    // Whole 8-byte instructions, or it is something else.
    if (this.wants(by) && compiled.length > 0 && compiled.length % 8 === 0) this.#compiled.set(by.runtime, compiled)
  }

  /** After a start with it that failed: the next one compiles again. */
  forget({ runtime }: Runtime): void {
    this.#compiled.delete(runtime)
  }
}

/** Removes the files that earlier versions kept the compiled profile in. */
export async function removeCompiledFiles(runDir: string): Promise<void> {
  for (const name of await readdir(runDir))
    if (/^seccomp-[0-9a-f]+\.bpf/.test(name)) await rm(join(runDir, name), { force: true })
}
