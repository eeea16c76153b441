// MariaDB 10.11 or later, through a pool of connections.
import { CompiledQuery, MysqlDialect } from 'kysely'
import { createPool } from 'mysql2'
import { type Engine, errorCode } from './engine.ts'

export type MariadbLocation = { socketPath: string; user: string; database: string }

const SESSION_SETTINGS = [
  // Fails on a value that does not fit its column instead of cutting it off.
  // SECURITY: without NO_BACKSLASH_ESCAPES, which would make the driver's escaping of values unsafe.
  "set session sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
  // Each statement sees what is committed, as in SQLite, and fewer gaps are locked.
  'set session transaction isolation level read committed',
]

export function openMariadb({ socketPath, user, database }: MariadbLocation): Engine {
  const pool = createPool({ socketPath, user, database, charset: 'utf8mb4', connectionLimit: 20 })
  return {
    dialect: new MysqlDialect({
      pool,
      onCreateConnection: async connection => {
        for (const setting of SESSION_SETTINGS) await connection.executeQuery(CompiledQuery.raw(setting))
      },
    }),
    // Text is compared byte by byte, trailing spaces included, as in SQLite.
    tableOptions: 'engine = InnoDB character set utf8mb4 collate utf8mb4_nopad_bin',
    isUniqueViolation: error => errorCode(error) === 'ER_DUP_ENTRY',
    isDeadlock: error => errorCode(error) === 'ER_LOCK_DEADLOCK',
  }
}
