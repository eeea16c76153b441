// The store: rows in SQLite or MariaDB, with one schema and one set of queries. Every other file in this folder has the queries of one table.
import { Kysely, type Transaction } from 'kysely'
import type { Engine } from './engine.ts'
import type { MariadbLocation } from './mariadb.ts'
import { migrate } from './migrations.ts'
import { openSqlite } from './sqlite.ts'
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

async function openEngine(location: StoreLocation): Promise<Engine> {
  if (location.engine === 'sqlite') return openSqlite(location.path)
  // Loaded only where it is used: the driver costs start time and memory.
  const { openMariadb } = await import('./mariadb.ts')
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
