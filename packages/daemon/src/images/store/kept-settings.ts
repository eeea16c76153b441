// What the row of an image keeps of its configuration: what it takes to run it, and of the rest what is small.
import { LIMITS } from '@sandglass/contract'
import type { ImageConfig } from '../manifest.ts'

const MAX_DEPTH = 16

/** SECURITY: rows are read and shown by the hundred, and a configuration may have megabytes of labels. The largest settings go first. */
export function keptSettings({ config }: ImageConfig): Record<string, unknown> {
  const settings = Object.entries(config ?? {}).map(([name, value]) => ({ name, value, size: name.length + sizeOf(value) }))
  // Programs are started with its environment, which has a limit of its own.
  settings.sort((a, b) => Number(b.name === 'Env') - Number(a.name === 'Env') || a.size - b.size)
  let left = LIMITS.image_settings_bytes.max
  const kept = settings.filter(({ name, size }) => {
    left -= size
    return left >= 0 || name === 'Env'
  })
  return Object.fromEntries(kept.map(({ name, value }) => [name, value]))
}

/** As JSON. What is nested so deeply that it could not be written is larger than anything. */
function sizeOf(value: unknown): number {
  return isDeep(value, MAX_DEPTH) ? Number.POSITIVE_INFINITY : JSON.stringify(value).length
}

function isDeep(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return depth === 0 || Object.values(value).some(inner => isDeep(inner, depth - 1))
}
