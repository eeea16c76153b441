import { FILE_ROOTS, LIMITS } from '@sandglass/contract'
import { list, page, quote, table } from '../markdown.ts'

type Row = { min?: number; max: number; highest?: number; raise?: string; default?: number | null; about: string }

export function limitsPage(): string {
  const rows = Object.entries<Row>(LIMITS).map(([name, r]) => [
    quote(name),
    r.about,
    amount(r.min),
    amount(r.default),
    amount(r.max) + (r.raise === undefined ? '' : `, or \`limits.${r.raise}\` up to ${amount(r.highest)}`),
  ])
  return page(
    'Limits',
    'A value outside its range is refused with `INVALID_REQUEST`, never moved into it.',
    table(['name', 'what', 'least', 'default', 'most'], rows),
    `File calls reach ${list(FILE_ROOTS)} in a sandbox, and nothing else.`,
  )
}

const amount = (n: number | null | undefined) => (n === undefined ? '' : n === null ? 'none' : n.toLocaleString('en-US'))
