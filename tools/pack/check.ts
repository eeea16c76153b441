// A package that would not work is not made: what its code imports, looks for beside itself or names as a page is in it or among its dependencies.
import { existsSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { citedPages } from './carry-docs.ts'
import { filesIn, specifiersIn } from './specifiers.ts'

/** It knows where the runner is in a package, and where in a clone. */
const KNOWS_THE_CLONE = 'src/runner-binary.js'
const BESIDE = /new URL\(\s*['"](\.[^'"]+)['"],\s*import\.meta\.url/g

export function checkWhole(folder: string): void {
  const { dependencies = {} }: { dependencies?: Record<string, string> } = JSON.parse(
    readFileSync(join(folder, 'package.json'), 'utf8'),
  )
  const isDependency = (specifier: string) => Object.keys(dependencies).some(name => `${specifier}/`.startsWith(`${name}/`))
  const lost = filesIn(folder)
    .filter(path => /\.m?js$|\.d\.ts$/.test(path))
    .flatMap(path => {
      const text = readFileSync(path, 'utf8')
      const imports = specifiersIn(text).filter(specifier => !isBuiltin(specifier) && !isDependency(specifier))
      const lookups = path.endsWith(KNOWS_THE_CLONE) ? [] : [...text.matchAll(BESIDE)].map(match => match[1] ?? '')
      return [...imports, ...lookups]
        .filter(name => !name.startsWith('.') || !existsSync(join(dirname(path), name)))
        .map(name => `${relative(folder, path)} wants ${name}`)
    })
  for (const page of citedPages(folder)) if (!existsSync(join(folder, page))) lost.push(`a message names ${page}`)
  if (lost.length > 0) throw new Error(`${folder} is not whole:\n${lost.join('\n')}`)
}
