// Shows sessions: one, a table, or JSON.
import { FINAL_STATES } from '@sandglass/contract/tables'
import { type SessionInfo, type SessionOptions, toSnake } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { fromNow, shortDuration } from '../parser/duration.ts'
import { printable, printableJson } from './printable.ts'
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

/** Prints what will not work as the session is set up. */
export function noteWarnings({ warnings }: SessionInfo, { say }: Context): void {
  for (const warning of warnings) say(`warning: ${printable(warning)}\n`)
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

/** The policies, or else the network, and the mode if requests outside the policies are not refused. */
function networkText({ network, policies, policyMode }: SessionInfo): string {
  const text = network === 'allowlist' ? policies.join(', ') || network : network
  return policyMode === null || policyMode === 'enforce' ? text : `${text} (${policyMode})`
}

/** The agent that works in the session, or else those that it has. */
const agentText = ({ agent, agents }: SessionInfo): string => agent ?? (agents.join(', ') || '-')

/** What is left of timeout_sec, which counts from the creation. */
export function timeoutText({ createdAt, timeoutSec, status }: SessionInfo, now = Date.now()): string {
  if (timeoutSec === null || FINAL_STATES.includes(status)) return '-'
  return `${shortDuration(Math.max(0, Date.parse(createdAt) + timeoutSec * 1000 - now))} left`
}

const COLUMNS: Readonly<Record<string, (info: SessionInfo) => string>> = {
  ID: ({ id }) => id,
  NAME: ({ name }) => name,
  STATUS: ({ status }) => status,
  AGENT: agentText,
  BACKEND: ({ backend }) => backend,
  NETWORK: networkText,
  IMAGE: ({ image }) => image,
  CREATED: ({ createdAt }) => fromNow(createdAt),
  EXPIRES: shortExpiry,
  TIMEOUT: timeoutText,
}

/** Columns that a narrow terminal leaves out, the first one first: a name is enough to use a session. */
const OPTIONAL = ['ID', 'BACKEND', 'NETWORK']

/** Columns that the table leaves out if they are empty for every session. */
const IS_EMPTY: Readonly<Record<string, (info: SessionInfo) => boolean>> = {
  NETWORK: ({ network }) => network === 'none',
  AGENT: info => agentText(info) === '-',
  TIMEOUT: info => timeoutText(info) === '-',
}

/** On a narrow terminal columns are left out, then images are shortened. */
export function sessionTable(infos: readonly SessionInfo[], stream: NodeJS.WriteStream): string {
  const available = resultWidth(stream)
  const unused = Object.keys(IS_EMPTY).filter(name => infos.every(info => IS_EMPTY[name]?.(info)))
  for (let count = 0; count <= OPTIONAL.length; count++) {
    const { head, rows } = columns(infos, [...unused, ...OPTIONAL.slice(0, count)])
    if (tableWidth(head, rows) <= available) return table(head, rows, stream)
  }
  const leftOut = [...unused, ...OPTIONAL]
  const { head, rows } = columns(infos, leftOut)
  const longest = Math.max(...infos.map(({ image }) => image.length))
  const width = Math.max(MIN_IMAGE, longest - (tableWidth(head, rows) - available))
  const short = infos.map(info => ({ ...info, image: ending(info.image, width) }))
  return table(head, columns(short, leftOut).rows, stream)
}

function columns(infos: readonly SessionInfo[], leftOut: readonly string[]): { head: string[]; rows: string[][] } {
  const head = Object.keys(COLUMNS).filter(name => !leftOut.includes(name))
  return { head, rows: infos.map(info => head.map(name => COLUMNS[name]?.(info) ?? '')) }
}

/** Shortened at the beginning, since the end of an image name is what differs. */
const MIN_IMAGE = 12
const ending = (text: string, length: number) => (text.length > length ? `…${text.slice(1 - length)}` : text)
