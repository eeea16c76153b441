// Where doctor tries things: beside what a running daemon has, on the same disk, and never in it.
import { existsSync } from 'node:fs'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Backends that are opened clear up what looks left over: in the data folder that would be the running daemon's. */
export async function inDoctorFolder<T>(dataDir: string, work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(dataDir, 'doctor-')).catch(() => mkdtemp(join(tmpdir(), 'sandglass-doctor-')))
  try {
    const kernel = join(dataDir, 'kernel')
    if (existsSync(kernel)) await symlink(kernel, join(folder, 'kernel'))
    return await work(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
