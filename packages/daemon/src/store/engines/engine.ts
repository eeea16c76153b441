// The differences between SQLite and MariaDB, all of them.
import type { Dialect } from 'kysely'

export interface Engine {
  readonly dialect: Dialect
  /** Follows the closing parenthesis of every `create table`. */
  readonly tableOptions: string
  /** True if a row with this primary key or unique index entry exists already. */
  isUniqueViolation(error: unknown): boolean
  /** True if the engine rolled the transaction back because of a deadlock. */
  isDeadlock(error: unknown): boolean
  /** The error to show instead of one that says that the database is damaged; undefined for any other error. */
  explain?(error: unknown): Error | undefined
}

export const errorCode = (error: unknown): string => (error as { code?: string } | null)?.code ?? ''
