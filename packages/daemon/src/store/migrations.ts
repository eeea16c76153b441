// Brings the schema of a database up to date. A step that has been released never changes; a new one goes at the end.
import { type Kysely, sql } from 'kysely'
import type { Store } from './open.ts'
import { createStatements, createTable } from './schema.ts'
import { rebuildTables, SQLITE_HISTORY } from './sqlite-history.ts'
import type { Tables } from './tables.ts'

/** The first schema that both engines have. A new database starts with it; schemas before it exist in SQLite files alone. */
const FIRST_SHARED = SQLITE_HISTORY.length + 1

/** Refuses a database that a later version wrote. */
export async function migrate(db: Store): Promise<void> {
  const { tableOptions } = db.engine
  await run(db, [createTable('meta', tableOptions)])
  const row = await db.selectFrom('meta').select('value').where('name', '=', 'schema').executeTakeFirst()
  const found = Number(row?.value ?? 0)
  if (found > FIRST_SHARED)
    throw new Error(
      `the database has schema ${found}, and this version knows ${FIRST_SHARED}: start the newer version that wrote it`,
    )
  if (found === 0) return migrateTo(db, FIRST_SHARED, trx => run(trx, createStatements(tableOptions)))
  for (let step = found; step < SQLITE_HISTORY.length; step++)
    await migrateTo(db, step + 1, trx => run(trx, SQLITE_HISTORY[step] ?? []))
  if (found < FIRST_SHARED) await migrateTo(db, FIRST_SHARED, rebuildTables)
}

/** Stores the version in the transaction of the step. MariaDB commits every `create table` at once: an interrupted step runs again. */
async function migrateTo(db: Store, version: number, step: (trx: Kysely<Tables>) => Promise<void>): Promise<void> {
  await db.transact(async trx => {
    await step(trx)
    await trx
      .replaceInto('meta')
      .values({ name: 'schema', value: String(version) })
      .execute()
  })
}

async function run(db: Kysely<Tables>, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await sql.raw(statement).execute(db)
}
