// Pages of lists. A cursor names the last row of a page, so that rows that are added or removed meanwhile do not shift the next page.
import { SandglassError } from '@sandglass/contract'
import { type RawBuilder, sql } from 'kysely'

export type Page = { limit: number; offset: number; cursor?: string | undefined }
type Dated = { created_at: number; id: string }

/** Takes one row more than `limit`, which shows whether another page follows. */
export function cutPage<T>(
  rows: readonly T[],
  limit: number,
  cursorOf: (row: T) => string,
): { rows: T[]; nextCursor: string | null } {
  const last = rows.length > limit ? rows[limit - 1] : undefined
  return { rows: rows.slice(0, limit), nextCursor: last === undefined ? null : cursorOf(last) }
}

/** For lists that are ordered by created_at and id, newest first. */
export const dateCursor = (row: Dated): string => encode(`${row.created_at}.${row.id}`)

/** The condition for rows after the cursor. MariaDB would not use an index for the shorter `(created_at, id) < (…, …)`. */
export function olderThan(cursor: string): RawBuilder<boolean> {
  const [, digits, id] = decode(cursor, /^(\d{1,15})\.([a-z0-9_:]{1,128})$/)
  const createdAt = Number(digits)
  return sql<boolean>`(created_at <= ${createdAt} and (created_at < ${createdAt} or id < ${id}))`
}

/** For lists of contexts: last used first. */
export const usedCursor = ({ updated_at, folder }: { updated_at: number; folder: string }): string =>
  encode(`${updated_at}.${folder}`)

export function usedBefore(cursor: string): RawBuilder<boolean> {
  const [, digits, folder] = decode(cursor, /^(\d{1,15})\.([a-f0-9]{1,64})$/)
  const updatedAt = Number(digits)
  return sql<boolean>`(updated_at <= ${updatedAt} and (updated_at < ${updatedAt} or folder < ${folder}))`
}

/** For lists that are ordered by name. */
export const nameCursor = ({ name }: { name: string }): string => encode(name)
export const nameOf = (cursor: string): string => decode(cursor, /^.{1,128}$/)[0]

const encode = (text: string) => Buffer.from(text).toString('base64url')

function decode(cursor: string, pattern: RegExp): RegExpExecArray {
  const match = pattern.exec(Buffer.from(cursor, 'base64url').toString())
  if (!match) throw new SandglassError('INVALID_REQUEST', { issue: 'cursor: is not one that a list gave' })
  return match
}
