// A runtime compiles the seccomp profile at every start, which takes about 3 ms with crun and 6 with runc. The filter compiled by the first start
// is reused by later ones.
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Runtime } from './runtimes.ts'

/**
 * Compiled filters by path of the runtime; only crun and runc are trusted to compile one. SECURITY: kept in memory only. A file would be trusted
 * at every start, even after a full disk or another program has changed it.
 */
export class CompiledSeccomp {
  readonly #compiled = new Map<string, Buffer>()

  get({ runtime }: Runtime): Buffer | null {
    return this.#compiled.get(runtime) ?? null
  }

  /** Whether the launcher should return the filter that the runtime compiles. */
  wants({ runtime, kind }: Runtime): boolean {
    return (kind === 'crun' || kind === 'runc') && !this.#compiled.has(runtime)
  }

  /** Keeps the filter that the runtime compiled when it started a machine. */
  keep(by: Runtime, compiled: Buffer): void {
    // A filter consists of whole 8-byte instructions; anything else is not one.
    if (this.wants(by) && compiled.length > 0 && compiled.length % 8 === 0) this.#compiled.set(by.runtime, compiled)
  }

  /** Called after a failed start: the next one compiles again. */
  forget({ runtime }: Runtime): void {
    this.#compiled.delete(runtime)
  }
}

/** Removes the files that earlier versions kept the compiled profile in. */
export async function removeCompiledFiles(runDir: string): Promise<void> {
  for (const name of await readdir(runDir))
    if (/^seccomp-[0-9a-f]+\.bpf/.test(name)) await rm(join(runDir, name), { force: true })
}
