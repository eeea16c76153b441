// SQLite: a file in WAL mode, with every statement compiled once.
import { chmodSync } from 'node:fs'
import { SandglassError } from '@sandglass/contract'
import Database from 'better-sqlite3'
import { SqliteDialect } from 'kysely'
import { type Engine, errorCode } from './engine.ts'

const UNIQUE_VIOLATIONS = ['SQLITE_CONSTRAINT_UNIQUE', 'SQLITE_CONSTRAINT_PRIMARYKEY']

const DAMAGE: Readonly<Record<string, string>> = {
  SQLITE_NOTADB: 'it is not an SQLite database',
  SQLITE_CORRUPT: 'SQLite finds it malformed',
}

export function openSqlite(path: string): Engine {
  const explain = (cause: unknown) => {
    const why = DAMAGE[errorCode(cause)]
    return why === undefined ? undefined : new SandglassError('STORE_DAMAGED', { path, why }, { cause })
  }
  try {
    return {
      dialect: new SqliteDialect({ database: cacheStatements(openFile(path)) }),
      tableOptions: '',
      isUniqueViolation: error => UNIQUE_VIOLATIONS.includes(errorCode(error)),
      // One connection, so one transaction at a time.
      isDeadlock: () => false,
      explain,
    }
  } catch (error) {
    throw explain(error) ?? error
  }
}

/** With WAL and synchronous NORMAL, a committed row survives a crash of the daemon. A power cut may lose the last commits. */
function openFile(path: string): Database.Database {
  const sqlite = new Database(path)
  // SECURITY: the file holds commands' working directories, labels and sealed environments; only the owner may read it.
  chmodSync(path, 0o600)
  try {
    sqlite.pragma('journal_mode = WAL')
    sqlite.pragma('synchronous = NORMAL')
    sqlite.pragma('foreign_keys = ON')
    sqlite.pragma('busy_timeout = 5000')
    return sqlite
  } catch (error) {
    sqlite.close()
    throw error
  }
}

/** Kysely prepares a statement for every query. This cache compiles each SQL text once. */
function cacheStatements(sqlite: Database.Database) {
  const statements = new Map<string, Database.Statement<unknown[]>>()
  return {
    close: () => void sqlite.close(),
    prepare(text: string) {
      // On a full disk SQLite rolls back by itself. A second rollback would fail and hide the first error.
      if (text === 'rollback' && !sqlite.inTransaction) return sqlite.prepare<unknown[]>('select 1 where false')
      let statement = statements.get(text)
      if (!statement) {
        statement = sqlite.prepare<unknown[]>(text)
        // The filters of lists make a few dozen texts. The bound is a precaution.
        if (statements.size < 500) statements.set(text, statement)
      }
      return statement
    },
  }
}
