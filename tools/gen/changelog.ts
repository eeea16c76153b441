// CHANGELOG.md from .changes/, one entry for each file, by name: two branches that add files merge by making it again.
import { readdirSync, readFileSync } from 'node:fs'
import { page } from './markdown.ts'

const FOLDER = '.changes'

export function changelogPage(): string {
  const names = readdirSync(FOLDER).filter(name => name.endsWith('.md'))
  const entries = names.toSorted().map(name => `- ${entry(readFileSync(`${FOLDER}/${name}`, 'utf8'))}`)
  return page('Changelog', '## Unreleased', entries.join('\n'))
}

/** In one line, with links as they lead from the folder above. */
const entry = (text: string) =>
  text
    .trim()
    .replaceAll(/\s*\n\s*/g, ' ')
    .replaceAll('](../', '](')
