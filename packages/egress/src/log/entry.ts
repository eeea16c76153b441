// One decision or event of a session's network, and its two forms: a line of text and a line of JSON.
import type { NetworkEntry } from '@sandglass/contract'

/** What is known of an entry when it is written. The rest is null. */
export type EntryFields = Pick<NetworkEntry, 'type'> & Partial<Omit<NetworkEntry, 'id' | 'at' | 'type'>>

export function newEntry(id: number, now: number, fields: EntryFields): NetworkEntry {
  return {
    decision: null,
    method: null,
    url: null,
    host: null,
    port: null,
    status: null,
    rule: null,
    reason: null,
    bytes_sent: null,
    bytes_received: null,
    duration_ms: null,
    masked: 0,
    tags: [],
    ...fields,
    id,
    at: new Date(now).toISOString(),
  }
}

/** The line of network-sandbox.log. */
export function entryText(entry: NetworkEntry): string {
  const { type, decision, method, url, host, status, reason } = entry
  const request = [method, url].filter(part => part !== null).join(' ')
  if (type === 'start') return `=== TASK START ${entry.at} ===`
  if (type === 'dns') return `DNS A ${host} -> ${reason}`
  if (type === 'stripped') return `STRIPPED header '${reason}' from ${request} (foreign credential blocked)`
  if (type === 'error' || decision === 'error') return `ERROR ${request} -> ${reason ?? 'failed'}`
  const tags = [...(entry.masked > 0 ? [`masked: ${entry.masked}`] : []), ...entry.tags].map(tag => ` [${tag}]`).join('')
  return `${decision === 'allowed' ? 'ALLOWED' : 'BLOCKED'} ${request} -> ${status ?? 'closed'}${tags}`
}

/** Printable ASCII as it is, everything else percent-encoded, and not too long. */
export const oneLine = (text: string): string => text.slice(0, LONGEST).replaceAll(/[^\x20-\x7e]/gu, encodeURIComponentSafely)

const LONGEST = 2000
/** A lone half of a pair cannot be encoded. */
const encodeURIComponentSafely = (char: string): string => (char.isWellFormed() ? encodeURIComponent(char) : '?')
