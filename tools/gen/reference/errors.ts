import { ERRORS, type ErrorCode } from '@sandglass/contract'
import { page, quote, table } from '../markdown.ts'

type Row = {
  http: number
  exit: number
  text: (detail: object) => string
  hint?: string | ((detail: object) => string | undefined)
}

export function errorsPage(): string {
  const rows = (Object.keys(ERRORS) as ErrorCode[]).map(code => {
    const row = ERRORS[code] as Row
    return [quote(code), row.http, row.exit, String(row.text(PLACEHOLDERS)), hintOf(row)]
  })
  return page(
    'Errors',
    'A failed call answers `{"error": {code, message, hint, detail, request_id}}` with the HTTP status below; the SDK throws the same as a ' +
      '`SandglassError`, and the command line prints message and hint on stderr and ends with the exit code below. `{name}` stands for a field of `detail`.',
    table(['code', 'HTTP', 'exit', 'message', 'next step'], rows),
    '`sandglass exec` passes the exit code of the command on: 128+n for a signal, 124 for a timeout, 125 when Sandglass itself failed.',
  )
}

const hintOf = ({ hint = '' }: Row) => (typeof hint === 'function' ? (hint(PLACEHOLDERS) ?? '') : hint)

/** Stands for any value of a detail field, a list of texts included. */
class Placeholder extends String {
  join(): string {
    return this.valueOf()
  }
}

const ABSENT: ReadonlySet<unknown> = new Set(['next', 'where', 'session'])

/** Fields that may be absent show what is there without them. */
const PLACEHOLDERS = new Proxy(
  {},
  {
    get: (_, field) => (ABSENT.has(field) ? undefined : new Placeholder(`{${String(field)}}`)),
  },
)
