import { page } from './markdown.ts'

export function cliPage(): string {
  return page('Command line')
}
