// Every import of a file, and the repository path or package it leads to.
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { code, read } from './tree.ts'

export type Import = { from: string; specifier: string; target: string; isTypeOnly: boolean }

const STATIC = /^[ \t]*(?:import|export)\s+(type\s)?(?:[\w*{][^'"();=]*?\sfrom\s+)?['"]([^'"\n]+)['"]/gm
const DYNAMIC = /\bimport\(\s*['"`]([^'"`\n]+)['"`]\s*\)/g

export function importsOf(path: string): Import[] {
  const source = code(path)
  const found: Import[] = []
  for (const [, type, specifier = ''] of source.matchAll(STATIC)) {
    found.push({ from: path, specifier, target: resolve(path, specifier), isTypeOnly: type !== undefined })
  }
  for (const match of source.matchAll(DYNAMIC)) {
    const specifier = match[1] ?? ''
    // `import('x').Type` in a type position is written in front of a dot that no await precedes.
    const isTypeOnly = source[match.index + match[0].length] === '.' && !/await\s+$/.test(source.slice(0, match.index))
    found.push({ from: path, specifier, target: resolve(path, specifier), isTypeOnly })
  }
  return found
}

function resolve(from: string, specifier: string): string {
  if (specifier.startsWith('.')) return join(dirname(from), specifier)
  const own = /^@sandglass\/([\w-]+)(\/.+)?$/.exec(specifier)
  if (!own) return specifier
  const folder = `packages/${own[1]}`
  if (!existsSync(`${folder}/package.json`)) return specifier
  const { exports }: { exports?: Record<string, string> } = JSON.parse(read(`${folder}/package.json`))
  const file = exports?.[`.${own[2] ?? ''}`]
  return file ? join(folder, file) : `${folder}: ${specifier} is not exported`
}
