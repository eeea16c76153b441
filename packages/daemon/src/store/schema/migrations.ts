// Brings the schema of a database up to date. A step that has been released never changes; a new one goes at the end.
import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engines/engine.ts'
import type { Store } from '../open.ts'
import type { Tables } from '../tables.ts'
import { addEgressTables } from './egress-tables.ts'
import { createStatements, createTable } from './schema.ts'
import { rebuildTables, SQLITE_HISTORY } from './sqlite-history.ts'
import { addTaskTables } from './task-tables.ts'

/** The first schema that both engines have. A new database starts with it; schemas before it exist in SQLite files alone. */
const FIRST_SHARED = SQLITE_HISTORY.length + 1

type Step = (trx: Kysely<Tables>, engine: Engine) => Promise<void>

/** The step at index n leads from schema FIRST_SHARED + n to the next one, on both engines. It must be safe to repeat. */
export const STEPS: readonly Step[] = [addEgressTables, addTaskTables]

/** Refuses a database that a later version wrote. */
export async function migrate(db: Store, steps = STEPS): Promise<void> {
  const { tableOptions } = db.engine
  await run(db, [createTable('meta', tableOptions)])
  const row = await db.selectFrom('meta').select('value').where('name', '=', 'schema').executeTakeFirst()
  const found = Number(row?.value ?? 0)
  const known = FIRST_SHARED + steps.length
  if (found > known)
    throw new Error(`the database has schema ${found}, and this version knows ${known}: start the newer version that wrote it`)
  if (found === 0) await migrateTo(db, FIRST_SHARED, createTables)
  else if (found < FIRST_SHARED) await migrateToShared(db, found)
  for (const [index, step] of steps.entries())
    if (found <= FIRST_SHARED + index) await migrateTo(db, FIRST_SHARED + index + 1, step)
}

/** Another daemon may have created the tables since this one looked, and stored events: their ids continue. */
async function createTables(trx: Kysely<Tables>, engine: Engine): Promise<void> {
  await run(trx, createStatements(engine.tableOptions))
  try {
    await trx.insertInto('sequences').values({ name: 'events', value: 0 }).execute()
  } catch (error) {
    if (!engine.isUniqueViolation(error)) throw error
  }
}

async function migrateToShared(db: Store, found: number): Promise<void> {
  for (const [index, statements] of SQLITE_HISTORY.entries())
    if (found <= index) await migrateTo(db, index + 1, trx => run(trx, statements))
  await migrateTo(db, FIRST_SHARED, rebuildTables)
}

/** Stores the version in the transaction of the step. MariaDB commits every `create table` at once: an interrupted step runs again. */
async function migrateTo(db: Store, version: number, step: Step): Promise<void> {
  await db.transact(async trx => {
    await step(trx, db.engine)
    await trx
      .replaceInto('meta')
      .values({ name: 'schema', value: String(version) })
      .execute()
  })
}

async function run(db: Kysely<Tables>, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await sql.raw(statement).execute(db)
}
