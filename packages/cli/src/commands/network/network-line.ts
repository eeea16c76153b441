// One entry of a network log as text.
import { stripVTControlCharacters, styleText } from 'node:util'
import type { NetworkEntry } from '@sandglass/sdk'
import { bytesText } from '../../output/bytes-text.ts'
import { printable } from '../../output/printable.ts'

const COLOURS = { allowed: 'green', blocked: 'red', error: 'yellow' } as const
/** The length of STRIPPED, and of most methods. */
const LABEL_WIDTH = 8
const METHOD_WIDTH = 4

/** Where text is shown; a pipe has no width. */
type Output = NodeJS.WritableStream & { readonly isTTY?: boolean; readonly columns?: number }

/**
 * One line. On a terminal it is coloured, has the local time, and is continued in a second line if it is too long. SECURITY: programs in
 * the sandbox choose method, host and URL.
 */
export function networkLine(entry: NetworkEntry, stream: Output, now = new Date()): string {
  const { at, decision, type, tags, masked } = entry
  const label = styleText(decision === null ? 'dim' : COLOURS[decision], (decision ?? type).toUpperCase().padEnd(LABEL_WIDTH), {
    stream,
  })
  const marks = masked > 0 ? [`masked: ${masked}`, ...tags] : tags
  const time = stream.isTTY ? localTime(new Date(at), now) : at
  const [what, why] = [
    [subject(entry), ...resultParts(entry)],
    [explanation(entry), ...marks.map(tag => `[${tag}]`)],
  ].map(parts => parts.filter(Boolean).map(printable))
  const first = joined([time, label, ...(what ?? [])])
  const whole = joined([first, ...(why ?? [])])
  const fits = !stream.isTTY || stripVTControlCharacters(whole).length <= (stream.columns ?? DEFAULT_WIDTH)
  return fits || why?.length === 0 ? whole : `${first}\n${' '.repeat(time.length + GAP.length)}${joined(why ?? [])}`
}

const GAP = '  '
const DEFAULT_WIDTH = 80
const joined = (parts: readonly string[]) => parts.join(GAP).trimEnd()

/** 14:03:59, with the date in front if it is not that of today. */
function localTime(at: Date, now: Date): string {
  const [year, month, day, ...clock] = [
    at.getFullYear(),
    at.getMonth() + 1,
    at.getDate(),
    at.getHours(),
    at.getMinutes(),
    at.getSeconds(),
  ].map(part => String(part).padStart(2, '0'))
  const isToday = at.toDateString() === now.toDateString()
  return `${isToday ? '' : `${year}-${month}-${day} `}${clock.join(':')}`
}

const METHODS: Partial<Record<NetworkEntry['type'], string>> = { dns: 'DNS', connection: 'TCP' }

function subject({ type, decision, method, url, host, port }: NetworkEntry): string {
  const verb = method ?? (decision === null ? '' : METHODS[type]) ?? ''
  const target = url ?? (host === null ? '' : port === null ? host : `${host}:${port}`)
  return `${verb.padEnd(verb === '' ? 0 : METHOD_WIDTH)} ${target}`.trim()
}

/** A request that was let through is explained by its rule, and a refusal by its reason. Of a removed header, the reason is its name. */
function explanation({ type, decision, rule, reason }: NetworkEntry): string {
  if (type === 'stripped') return `header ${reason} removed: it held another credential`
  return (decision === 'allowed' ? (rule ?? reason) : (reason ?? rule)) ?? ''
}

function resultParts({ status, bytesReceived, durationMs }: NetworkEntry): string[] {
  return [
    status === null ? '' : String(status),
    bytesReceived === null ? '' : bytesText(bytesReceived),
    durationMs === null ? '' : `${Math.round(durationMs)} ms`,
  ]
}
