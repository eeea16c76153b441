// Approvals as a table.
import type { ApprovalInfo } from '@sandglass/sdk'
import { table, tableWidth } from '../../output/table.ts'
import { resultWidth } from '../../output/wrap.ts'
import { fromNow } from '../../parser/duration.ts'
import { requestText, statusText } from './approval-text.ts'

const REQUEST = 'REQUEST'

const COLUMNS: Readonly<Record<string, (approval: ApprovalInfo) => string>> = {
  ID: ({ id }) => id,
  SESSION: ({ sessionName }) => sessionName,
  [REQUEST]: requestText,
  STATUS: statusText,
  ASKED: ({ requestedAt }) => fromNow(requestedAt),
  /** When a request that waits is refused. */
  ENDS: ({ status, expiresAt }) => (status === 'pending' ? fromNow(expiresAt) : '-'),
}

/**
 * The column of statuses is there if something has been answered or has expired, and that of ends if something waits. If the table does not
 * fit the terminal, each request is on a line of its own, unabridged: whoever answers has to see all of it.
 */
export function approvalTable(found: readonly ApprovalInfo[], stream: NodeJS.WriteStream): string {
  const waiting = found.filter(({ status }) => status === 'pending').length
  const unused = [...(waiting === found.length ? ['STATUS'] : []), ...(waiting === 0 ? ['ENDS'] : [])]
  const wide = columns(found, unused)
  if (tableWidth(wide.head, wide.rows) <= resultWidth(stream)) return table(wide.head, wide.rows, stream)
  const narrow = columns(found, [...unused, REQUEST])
  return table(narrow.head, narrow.rows, stream, found.map(requestText))
}

function columns(found: readonly ApprovalInfo[], leftOut: readonly string[]): { head: string[]; rows: string[][] } {
  const head = Object.keys(COLUMNS).filter(name => !leftOut.includes(name))
  return { head, rows: found.map(approval => head.map(name => COLUMNS[name]?.(approval) ?? '')) }
}
