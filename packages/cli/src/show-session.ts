import { type SessionInfo, toSnake } from '@sandglass/sdk'
import type { Context } from './command.ts'
import { fromNow } from './duration.ts'
import { printableJson } from './printable.ts'
import { table, tableWidth } from './table.ts'
import { resultWidth } from './wrap.ts'

/** JSON in the shape of the API, one document. */
export const toJson = (value: unknown) => `${printableJson(toSnake(value), 2)}\n`

/** Name and id on one line, or the whole as JSON. */
export function showSession(info: SessionInfo, { json, print }: Context): void {
  print(json ? toJson(info) : `${info.name}  ${info.id}\n`)
}

/** What a change led to: name and state, or what `line` makes of it. */
export function showState(
  infos: readonly SessionInfo[],
  { json, print }: Context,
  line = ({ name, status }: SessionInfo) => `${name}  ${status}`,
): void {
  if (json) print(toJson(infos.length === 1 ? infos[0] : infos))
  else for (const info of infos) print(`${line(info)}\n`)
}

const HEAD = ['ID', 'NAME', 'STATUS', 'IMAGE', 'CREATED', 'EXPIRES'] as const
const IMAGE = HEAD.indexOf('IMAGE')

/** On a terminal that is too narrow the ids go first, since a name is enough to use a session; then images lose their beginning. */
export function sessionTable(infos: readonly SessionInfo[], stream: NodeJS.WriteStream): string {
  const rows = infos.map(s => [s.id, s.name, s.status, s.image, fromNow(s.createdAt), fromNow(s.expiresAt)])
  const available = resultWidth(stream)
  if (tableWidth(HEAD, rows) <= available) return table(HEAD, rows, stream)
  const [head, short] = [HEAD.slice(1), rows.map(row => row.slice(1))]
  const excess = tableWidth(head, short) - available
  if (excess <= 0) return table(head, short, stream)
  const longest = Math.max(...rows.map(row => row[IMAGE]?.length ?? 0))
  const room = Math.max(MIN_IMAGE, longest - excess)
  const cut = short.map(row => row.with(IMAGE - 1, ending(row[IMAGE - 1] ?? '', room)))
  return table(head, cut, stream)
}

/** What tells images apart is at the end of their names. */
const MIN_IMAGE = 12
const ending = (text: string, length: number) => (text.length > length ? `…${text.slice(1 - length)}` : text)
