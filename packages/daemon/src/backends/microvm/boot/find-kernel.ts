// Finds the kernel for machines and the folder of its modules.
import { accessSync, constants, existsSync, readdirSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

export interface Kernel {
  readonly path: string
  readonly version: string
  readonly modulesDir: string
}

/** In the x64 boot protocol: the field with the offset of the version string, and the base of that offset. */
const VERSION_OFFSET = 0x20e
const VERSION_BASE = 0x200
const SETUP_BYTES = 64 * 1024

/**
 * `wanted` is a path or `auto`: the newest kernel in /boot whose modules are installed, else one below `roots`, which have the folders boot and
 * lib/modules of an unpacked package. Null if there is none.
 */
export async function findKernel(wanted: string, roots: readonly string[]): Promise<Kernel | null> {
  if (wanted !== 'auto')
    return await withModules(wanted, [join(dirname(wanted), 'lib/modules'), join(dirname(wanted), '../lib/modules')])
  for (const root of ['/', ...roots]) {
    for (const path of kernelsIn(join(root, 'boot'))) {
      const kernel = await withModules(path, [join(root, 'lib/modules'), join(root, 'usr/lib/modules')])
      if (kernel !== null) return kernel
    }
  }
  return null
}

/** Readable kernels, newest first. */
function kernelsIn(dir: string): string[] {
  if (!existsSync(dir)) return []
  const names = readdirSync(dir).filter(name => name.startsWith('vmlinuz-') && isReadable(join(dir, name)))
  return names.toSorted((a, b) => b.localeCompare(a, 'en', { numeric: true })).map(name => join(dir, name))
}

async function withModules(path: string, dirs: readonly string[]): Promise<Kernel | null> {
  const version = isReadable(path) ? await versionOf(path) : null
  if (version === null) return null
  const modulesDir = [...dirs, '/lib/modules']
    .map(dir => join(dir, version))
    .find(dir => existsSync(join(dir, 'modules.builtin')))
  return modulesDir === undefined ? null : { path, version, modulesDir }
}

/** From the kernel's header if it has one, else from the file name. */
async function versionOf(path: string): Promise<string | null> {
  const named = /^(?:vmlinuz|vmlinux|Image)-(.+)$/.exec(basename(path))?.[1] ?? null
  const file = await open(path)
  try {
    const { buffer } = await file.read({ buffer: Buffer.alloc(SETUP_BYTES), position: 0 })
    if (buffer.toString('latin1', 0x202, 0x206) !== 'HdrS') return named
    const at = VERSION_BASE + buffer.readUInt16LE(VERSION_OFFSET)
    return buffer.toString('latin1', at, buffer.indexOf(0, at)).split(' ')[0] ?? named
  } finally {
    await file.close()
  }
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK)
    return statSync(path).isFile()
  } catch {
    return false // not readable
  }
}
