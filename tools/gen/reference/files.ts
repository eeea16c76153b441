// docs/reference/files.md: every source file of the product, with the first sentence of the comment at its head.
import { basename, dirname } from 'node:path'
import { FILES, isGenerated, isTest, read } from '../../../test/gates/tree.ts'
import { page, table } from '../markdown.ts'

export function filesPage(): string {
  const folders = Map.groupBy(FILES.filter(isProduct).toSorted(), path => dirname(path))
  const sections = [...folders].map(([folder, paths]) => {
    const rows = paths.map(path => [`\`${basename(path)}\``, summaryOf(path)])
    return `## ${folder}\n\n${table(['file', 'about'], rows)}`
  })
  return page(
    'Files',
    'Every source file of the product, with the first sentence of the comment at its head. [Architecture](../architecture.md) says what the folders are for.',
    ...sections,
  )
}

const isProduct = (path: string): boolean =>
  /^(packages\/[^/]+\/src|runner)\/.+\.(ts|go)$/.test(path) && !isTest(path) && !isGenerated(path) && !path.endsWith('_test.go')

/** Without a comment at its head: the summary of a command, or the names that the file exports. */
function summaryOf(path: string): string {
  const source = read(path).replace(/^#!.*\n/, '')
  const comment = path.endsWith('.go') ? goComment(source) : typescriptComment(source)
  return firstSentence(comment).replaceAll('|', '\\|') || exportsOf(source)
}

function typescriptComment(source: string): string {
  const head = /^(?:\/\/(?! biome-ignore).*\n)+/.exec(source)?.[0]
  if (head) return head.replaceAll(/^\/\/ ?/gm, '')
  return /^ {2}summary: '(.+)',$/m.exec(source)?.[1] ?? ''
}

function goComment(source: string): string {
  const before =
    /^((?:\/\/.*\n)+)(?=package |func |type |const |var |\t?[A-Za-z])/m.exec(source.replace(/^\/\/go:.*\n/gm, ''))?.[1] ?? ''
  return before.replaceAll(/^\/\/ ?/gm, '')
}

function firstSentence(comment: string): string {
  const text = comment.replaceAll(/\s+/g, ' ').trim()
  return /^.*?[^.\s]\.(?= [A-Z`“]|$)/.exec(text)?.[0] ?? text
}

function exportsOf(source: string): string {
  const names = [...source.matchAll(/^(?:export (?:async )?(?:function\*?|const|class|type|interface)|func|type) (\w+)/gm)]
  return names.map(([, name]) => `\`${name}\``).join(', ')
}
