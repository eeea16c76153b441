// Collects kernel modules in the order in which they can be loaded. Dependencies are read from the modules themselves, so that a kernel package
// that was only unpacked, without depmod, works.
import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { isMissing } from '../../../lib/missing-file.ts'

const run = promisify(execFile)
const MAX_MODULE_BYTES = 64 * 1024 * 1024

/** The kernel cannot be used; `fix` says what to do. */
export class UnusableKernel extends Error {
  override readonly name = 'UnusableKernel'
  readonly fix: string

  constructor(why: string, fix = 'install another kernel, or name one with backends.microvm.kernel', options?: ErrorOptions) {
    super(why, options)
    this.fix = fix
  }
}

export interface KernelModule {
  readonly name: string
  readonly content: Buffer
}

/** The wanted modules with their dependencies. Built-in modules and missing `optional` ones are left out. */
export async function collectModules(
  modulesDir: string,
  wanted: readonly string[],
  optional: readonly string[] = [],
): Promise<KernelModule[]> {
  const files = await moduleFiles(modulesDir)
  const builtIn = new Set((await readFile(join(modulesDir, 'modules.builtin'), 'utf8')).split('\n').map(moduleName))
  const found = new Map<string, KernelModule>()
  const visit = async (name: string): Promise<void> => {
    if (found.has(name) || builtIn.has(name)) return
    const path = files.get(name)
    if (path === undefined) {
      if (optional.includes(name)) return
      throw new UnusableKernel(`the kernel of ${modulesDir} has no module ${name}`)
    }
    const content = await readModule(path)
    for (const needed of dependencies(content)) await visit(needed)
    found.set(name, { name, content })
  }
  for (const name of [...wanted, ...optional]) await visit(name)
  return [...found.values()]
}

async function moduleFiles(modulesDir: string): Promise<Map<string, string>> {
  const entries = await readdir(join(modulesDir, 'kernel'), { recursive: true })
  const modules = entries.filter(path => /\.ko(\.(xz|zst|gz))?$/.test(path))
  return new Map(modules.map(path => [moduleName(path), join(modulesDir, 'kernel', path)]))
}

/** File names may have - where the kernel uses _. */
function moduleName(path: string): string {
  return basename(path)
    .replace(/\.ko(\..*)?$/, '')
    .replaceAll('-', '_')
}

async function readModule(path: string): Promise<Buffer> {
  const bounds = { maxOutputLength: MAX_MODULE_BYTES }
  try {
    if (path.endsWith('.xz')) return (await run('xz', ['-dc', path], { encoding: 'buffer', maxBuffer: MAX_MODULE_BYTES })).stdout
    const content = await readFile(path)
    if (path.endsWith('.zst')) return zstdDecompressSync(content, bounds)
    return path.endsWith('.gz') ? gunzipSync(content, bounds) : content
  } catch (error) {
    if (path.endsWith('.xz') && isMissing(error))
      throw new UnusableKernel(
        'the modules of the kernel are compressed, and xz is not installed',
        'sudo apt-get install -y xz-utils',
      )
    throw new UnusableKernel(`${path} cannot be read: ${error instanceof Error ? error.message : error}`, undefined, {
      cause: error,
    })
  }
}

/** From the section .modinfo of the module: NAME=VALUE strings, each terminated by a zero byte. */
function dependencies(content: Buffer): string[] {
  const mark = Buffer.from('\0depends=')
  const at = content.indexOf(mark)
  if (at < 0) return []
  const start = at + mark.length
  const list = content.toString('latin1', start, content.indexOf(0, start))
  return list === '' ? [] : list.split(',').map(moduleName)
}
