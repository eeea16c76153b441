// package.json as it is published: entry points that are JavaScript, and of the dependencies only those that a user needs.
import { readdirSync, readFileSync } from 'node:fs'

export type Manifest = {
  name: string
  version: string
  description: string
  license: string
  type: string
  exports?: Record<string, string>
  bin?: Record<string, string>
  man?: string
  engines?: { node: string }
  dependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
  peerDependenciesMeta?: Record<string, { optional: boolean }>
}

/** Of every package, by folder. */
export function readManifests(): Record<string, Manifest> {
  const folders = readdirSync('packages')
  return Object.fromEntries(folders.map(folder => [folder, JSON.parse(readFileSync(`packages/${folder}/package.json`, 'utf8'))]))
}

export const entryPoints = ({ exports = {}, bin = {} }: Manifest): string[] => [...Object.values(exports), ...Object.values(bin)]

export function packedManifest(manifest: Manifest, all: Readonly<Record<string, Manifest>>): Record<string, unknown> {
  const { name, version, description, license, type, exports, bin, man, dependencies, peerDependencies, peerDependenciesMeta } =
    manifest
  const { engines = { node: '>=24' } } = manifest
  for (const { name: other, version: own } of Object.values(all)) {
    const wanted = dependencies?.[other] ?? peerDependencies?.[other]
    if (wanted !== undefined && wanted !== own) throw new Error(`${name} wants ${other} ${wanted}, and it is ${own}`)
  }
  return {
    name,
    version,
    description,
    license,
    type,
    engines,
    ...(name === '@sandglass/daemon' ? { os: ['linux'], cpu: ['x64', 'arm64'] } : {}),
    ...(exports ? { exports: Object.fromEntries(Object.entries(exports).map(([path, file]) => [path, compiled(file)])) } : {}),
    ...(bin ? { bin } : {}),
    ...(man ? { man } : {}),
    ...(dependencies ? { dependencies } : {}),
    ...(peerDependencies ? { peerDependencies, peerDependenciesMeta } : {}),
  }
}

const compiled = (file: string) => ({ types: file.replace(/\.ts$/, '.d.ts'), default: file.replace(/\.ts$/, '.js') })
