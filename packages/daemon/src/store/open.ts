// The store: rows in SQLite or MariaDB, with one schema and one set of queries. Every other file in this folder has the queries of one table.
import { Kysely, type Transaction } from 'kysely'
import type { Engine } from './engines/engine.ts'
import type { MariadbLocation } from './engines/mariadb.ts'
import { openSqlite } from './engines/sqlite.ts'
import { migrate } from './schema/migrations.ts'
import type { Tables } from './tables.ts'

export type StoreLocation = { engine: 'sqlite'; path: string } | ({ engine: 'mariadb' } & MariadbLocation)

/** Opens the database and brings its schema up to date. */
export async function openStore(location: StoreLocation): Promise<Store> {
  const engine = await openEngine(location)
  const store = new Store(engine)
  try {
    await migrate(store)
    return store
  } catch (error) {
    await store.destroy()
    throw engine.explain?.(error) ?? error
  }
}

/** Without a schema; for openStore and for tests of migrations. */
export async function openEngine(location: StoreLocation): Promise<Engine> {
  if (location.engine === 'sqlite') return openSqlite(location.path)
  // Loaded only where it is used: the driver costs start time and memory.
  const { openMariadb } = await import('./engines/mariadb.ts')
  return openMariadb(location)
}

const MAX_ATTEMPTS = 5

export class Store extends Kysely<Tables> {
  readonly engine: Engine

  constructor(engine: Engine) {
    super({ dialect: engine.dialect })
    this.engine = engine
  }

  /** Runs `work` in a transaction. The engine may abort one of two transactions that deadlock; that one runs again from the start. */
  async transact<T>(work: (trx: Transaction<Tables>) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.transaction().execute(work)
      } catch (error) {
        if (attempt === MAX_ATTEMPTS || !this.engine.isDeadlock(error)) throw error
      }
    }
  }
}
