// Shows sessions: one, a table, or JSON.
import { type SessionInfo, type SessionOptions, toSnake } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { fromNow } from '../parser/duration.ts'
import { printableJson } from './printable.ts'
import { table, tableWidth } from './table.ts'
import { resultWidth } from './wrap.ts'

/** One JSON document in the shape of the API. */
export const toJson = (value: unknown) => `${printableJson(toSnake(value), 2)}\n`

/** Prints name and id, or with --json the whole session. */
export function showSession(info: SessionInfo, { json, print }: Context): void {
  print(json ? toJson(info) : `${info.name}  ${info.id}\n`)
}

/** Notes differences from what the user may expect: another backend may be slower or weaker. */
export function noteDifferences(
  { backend, nestedVirt }: SessionInfo,
  asked: SessionOptions,
  { quiet, json, say }: Context,
): void {
  if (quiet || json) return
  if (backend !== 'oci' && (asked.backend ?? 'auto') === 'auto')
    say(
      `note: created with the backend ${backend}, because oci cannot provide all that was requested on this host; \`sandglass doctor\` says why\n`,
    )
  if (asked.nestedVirt && !nestedVirt)
    say('note: created without nested virtualisation, which this host does not provide; `sandglass doctor` says why\n')
}

/** Prints name and state of changed sessions, or what `line` returns for each. */
export function showState(
  infos: readonly SessionInfo[],
  isMany: boolean,
  { json, print }: Context,
  line = ({ name, status }: SessionInfo) => `${name}  ${status}`,
): void {
  if (json) print(toJson(isMany ? infos : infos[0]))
  else for (const info of infos) print(`${line(info)}\n`)
}

const EXPIRY = { end: 'ends', stop: 'stops', pause: 'pauses' } as const

/** What happens to the session if it is not used, and when; null for nothing. */
export function expiryOf({ expiresAt, expiryAction, keptUntil }: SessionInfo): { verb: string; at: string } | null {
  if (keptUntil !== null) return { verb: 'is removed', at: keptUntil }
  return expiresAt === null || expiryAction === null ? null : { verb: EXPIRY[expiryAction], at: expiresAt }
}

function shortExpiry(info: SessionInfo): string {
  const { verb, at } = expiryOf(info) ?? { verb: '', at: null }
  return verb === '' || verb === EXPIRY.end ? fromNow(at) : `${verb} ${fromNow(at)}`
}

const COLUMNS: Readonly<Record<string, (info: SessionInfo) => string>> = {
  ID: ({ id }) => id,
  NAME: ({ name }) => name,
  STATUS: ({ status }) => status,
  BACKEND: ({ backend }) => backend,
  IMAGE: ({ image }) => image,
  CREATED: ({ createdAt }) => fromNow(createdAt),
  EXPIRES: shortExpiry,
}

/** On a narrow terminal the ids are left out first, since a name is enough to use a session, then the backends; then images are shortened. */
export function sessionTable(infos: readonly SessionInfo[], stream: NodeJS.WriteStream): string {
  const available = resultWidth(stream)
  for (const left of [[], ['ID'], ['ID', 'BACKEND']]) {
    const { head, rows } = columns(infos, left)
    if (tableWidth(head, rows) <= available) return table(head, rows, stream)
  }
  const { head, rows } = columns(infos, ['ID', 'BACKEND'])
  const longest = Math.max(...infos.map(({ image }) => image.length))
  const width = Math.max(MIN_IMAGE, longest - (tableWidth(head, rows) - available))
  const short = infos.map(info => ({ ...info, image: ending(info.image, width) }))
  return table(head, columns(short, ['ID', 'BACKEND']).rows, stream)
}

function columns(infos: readonly SessionInfo[], leftOut: readonly string[]): { head: string[]; rows: string[][] } {
  const head = Object.keys(COLUMNS).filter(name => !leftOut.includes(name))
  return { head, rows: infos.map(info => head.map(name => COLUMNS[name]?.(info) ?? '')) }
}

/** Shortened at the beginning, since the end of an image name is what differs. */
const MIN_IMAGE = 12
const ending = (text: string, length: number) => (text.length > length ? `…${text.slice(1 - length)}` : text)
