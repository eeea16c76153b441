// Opens the SQLite database: WAL, migrated, with every statement prepared once.
import { chmodSync } from 'node:fs'
import { SandglassError } from '@sandglass/contract'
import Database from 'better-sqlite3'
import { Kysely, SqliteDialect } from 'kysely'
import { migrate } from './migrations.ts'
import type { Tables } from './tables.ts'

export type Store = Kysely<Tables>

/** With WAL and synchronous NORMAL a committed row survives the death of the daemon, if not a power cut of the last instant. */
export async function openStore(path: string): Promise<Store> {
  try {
    return await open(path)
  } catch (cause) {
    const why = DAMAGE[(cause as { code?: string }).code ?? '']
    throw why === undefined ? cause : new SandglassError('STORE_DAMAGED', { path, why }, { cause })
  }
}

const DAMAGE: Readonly<Record<string, string>> = {
  SQLITE_NOTADB: 'it is not an SQLite database',
  SQLITE_CORRUPT: 'SQLite finds it malformed',
}

async function open(path: string): Promise<Store> {
  const sqlite = new Database(path)
  // SECURITY: the file holds commands' working directories, labels and sealed environments; nobody else reads it.
  chmodSync(path, 0o600)
  try {
    sqlite.pragma('journal_mode = WAL')
    sqlite.pragma('synchronous = NORMAL')
    sqlite.pragma('foreign_keys = ON')
    sqlite.pragma('busy_timeout = 5000')
    const db = new Kysely<Tables>({ dialect: new SqliteDialect({ database: preparedOnce(sqlite) }) })
    await migrate(db)
    return db
  } catch (error) {
    sqlite.close()
    throw error
  }
}

/** Kysely prepares on every query; the texts are few, so each is compiled once. */
function preparedOnce(sqlite: Database.Database) {
  const statements = new Map<string, Database.Statement<unknown[]>>()
  return {
    close: () => void sqlite.close(),
    prepare(text: string) {
      // On a full disk SQLite has rolled back by itself, and a second time would be an error that hides the first.
      if (text === 'rollback' && !sqlite.inTransaction) return sqlite.prepare<unknown[]>('select 1 where false')
      let statement = statements.get(text)
      if (!statement) {
        statement = sqlite.prepare<unknown[]>(text)
        // Lists combine filters in a few dozen ways at most; the bound is for what nobody has thought of.
        if (statements.size < 500) statements.set(text, statement)
      }
      return statement
    },
  }
}
