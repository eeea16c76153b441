import { type SessionInfo, toSnake } from '@sandglass/sdk'
import type { Context } from './command.ts'
import { fromNow } from './duration.ts'
import { table } from './table.ts'

/** JSON in the shape of the API, one document. */
export const toJson = (value: unknown) => `${JSON.stringify(toSnake(value), null, 2)}\n`

/** Name and id on one line, or the whole as JSON. */
export function showSession(info: SessionInfo, { json, print }: Context): void {
  print(json ? toJson(info) : `${info.name}  ${info.id}\n`)
}

/** What a change led to: name and state. */
export function showState(infos: readonly SessionInfo[], { json, print }: Context): void {
  if (json) print(toJson(infos.length === 1 ? infos[0] : infos))
  else for (const { name, status } of infos) print(`${name}  ${status}\n`)
}

export function sessionTable(infos: readonly SessionInfo[]): string {
  const rows = infos.map(s => [s.id, s.name, s.status, s.image, fromNow(s.createdAt), fromNow(s.expiresAt)])
  return table(['ID', 'NAME', 'STATUS', 'IMAGE', 'CREATED', 'EXPIRES'], rows, process.stdout)
}
