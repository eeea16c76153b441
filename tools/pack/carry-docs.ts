// Messages name pages as docs/…: a package carries those that its code names, and the pages that they lead to.
import { cpSync, existsSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { filesIn } from './specifiers.ts'

const PAGE = /\bdocs\/[a-z0-9/-]+\.md\b/g
const LINK = /\]\(([^)#:]+\.md)(?:#[^)]*)?\)/g

/** The command line also shows what the other packages say, so it carries their pages too. */
export function carryDocs(stage: string, folders: readonly string[]): void {
  const cited = new Map(folders.map(folder => [folder, citedPages(join(stage, folder))]))
  for (const [folder, own] of cited)
    for (const page of reached(folder === 'cli' ? [...cited.values()].flat() : own)) cpSync(page, join(stage, folder, page))
}

/** Pages that the code of a package names. */
export function citedPages(folder: string): string[] {
  const code = filesIn(folder).filter(path => path.endsWith('.js'))
  return [...new Set(code.flatMap(path => readFileSync(path, 'utf8').match(PAGE) ?? []))]
}

function reached(pages: readonly string[]): Set<string> {
  const found = new Set(pages)
  for (const page of found) {
    for (const [, link = ''] of readFileSync(page, 'utf8').matchAll(LINK)) {
      const path = normalize(join(dirname(page), link))
      if (path.startsWith('docs/') && existsSync(path)) found.add(path)
    }
  }
  return found
}
