// A package that would not load is not made: every import in it leads to a file that it has, or to something that it depends on.
import { existsSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { filesIn, specifiersIn } from './specifiers.ts'

export function checkImports(folder: string): void {
  const { dependencies = {} }: { dependencies?: Record<string, string> } = JSON.parse(
    readFileSync(join(folder, 'package.json'), 'utf8'),
  )
  const isDependency = (specifier: string) => Object.keys(dependencies).some(name => `${specifier}/`.startsWith(`${name}/`))
  const lost = filesIn(folder)
    .filter(path => /\.m?js$|\.d\.ts$/.test(path))
    .flatMap(path =>
      specifiersIn(readFileSync(path, 'utf8'))
        .filter(specifier => !isBuiltin(specifier) && !isDependency(specifier))
        .filter(specifier => !specifier.startsWith('.') || !existsSync(join(dirname(path), specifier)))
        .map(specifier => `${relative(folder, path)} imports ${specifier}`),
    )
  if (lost.length > 0) throw new Error(`${folder} is not whole:\n${lost.join('\n')}`)
}
