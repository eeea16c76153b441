// For tests: SQLite databases as older versions left them.
import { renameSync } from 'node:fs'
import Database from 'better-sqlite3'
import { SQLITE_HISTORY } from './sqlite-history.ts'

/** Creates a database of schema 1 to 6. The caller closes it. */
export function oldDatabase(path: string, version: number): Database.Database {
  const db = new Database(path)
  db.exec('create table meta (name text primary key, value text not null) strict')
  for (const statement of SQLITE_HISTORY.slice(0, version).flat()) db.exec(statement)
  db.prepare("insert into meta values ('schema', ?)").run(String(version))
  return db
}

/** Replaces a database by one of an older schema with the same sessions. */
export function downgradeSessions(path: string, version: number): void {
  renameSync(path, `${path}.new`)
  const old = oldDatabase(path, version)
  const columns = columnsOf(old, 'sessions')
  old.exec(`attach '${path}.new' as newer; insert into sessions (${columns}) select ${columns} from newer.sessions`)
  old.close()
}

export const columnsOf = (db: Database.Database, table: string): string[] =>
  db.prepare<string, string>('select name from pragma_table_info(?)').pluck().all(table)
