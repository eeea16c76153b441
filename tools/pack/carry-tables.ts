// The SDK has no dependencies: its package carries the contract's zod-free tables, under src/contract.
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { filesIn, specifiersIn, withSpecifiers } from './specifiers.ts'

const TABLES = '@sandglass/contract/tables'

/** Both folders hold emitted code; that of the SDK leads to the copy afterwards. */
export function carryTables(contract: string, sdk: string): void {
  const copy = join(sdk, 'contract')
  for (const path of filesIn(sdk)) {
    const text = readFileSync(path, 'utf8')
    const way = relative(dirname(path), join(copy, 'tables.js'))
    const beside = way.startsWith('.') ? way : `./${way}`
    writeFileSync(
      path,
      withSpecifiers(text, specifier => (specifier === TABLES ? beside : specifier)),
    )
  }
  for (const path of reached(join(contract, 'tables.js'))) cpSync(path, join(copy, relative(contract, path)))
}

/** The file, its declarations, and what they import. */
function reached(entry: string): Set<string> {
  const found = new Set([entry, declarations(entry)])
  for (const path of found) {
    for (const specifier of specifiersIn(readFileSync(path, 'utf8')).filter(s => s.startsWith('.'))) {
      const file = join(dirname(path), specifier)
      for (const each of [file, declarations(file)]) if (existsSync(each)) found.add(each)
    }
  }
  return found
}

const declarations = (path: string) => path.replace(/\.js$/, '.d.ts')
