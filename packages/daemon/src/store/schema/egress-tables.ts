// Schema 8: policies, approvals, the settings of secrets, and what a session has of them.
import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engines/engine.ts'
import type { Tables } from '../tables.ts'

const TENANT = "tenant varchar(64) not null default 'default'"

const COLUMNS: Readonly<Record<string, readonly (readonly [name: string, definition: string])[]>> = {
  sessions: [
    ['policies', "mediumtext not null default '[]'"],
    ['policy_mode', 'varchar(32)'],
    ['secrets', "mediumtext not null default '[]'"],
    ['ca_fingerprint', 'varchar(128)'],
    ['warnings', "mediumtext not null default '[]'"],
  ],
  secrets: [['settings', 'mediumtext']],
}

const TABLES: readonly (readonly [name: string, columns: string])[] = [
  [
    'policies',
    `${TENANT}, name varchar(64) not null, policy mediumtext not null, created_at bigint not null, updated_at bigint not null,
    primary key (tenant, name)`,
  ],
  [
    'approvals',
    `id varchar(64) not null primary key, ${TENANT}, session_id varchar(64) not null, session_name varchar(64) not null,
    status varchar(32) not null, method varchar(64), url mediumtext not null, host mediumtext not null, port bigint not null,
    scope varchar(32), requests bigint not null, created_at bigint not null, expires_at bigint not null, answered_at bigint,
    revision bigint not null, foreign key (session_id) references sessions (id) on delete cascade`,
  ],
]

const INDEXES: readonly string[] = [
  'index if not exists approvals_page on approvals (tenant, created_at, id)',
  'index if not exists approvals_status_page on approvals (tenant, status, created_at, id)',
  'index if not exists approvals_session_page on approvals (session_id, created_at, id)',
  // A follower reads the approvals that have changed since the revision it has seen.
  'unique index if not exists approvals_revision on approvals (tenant, revision)',
]

/** Safe to repeat: MariaDB cannot roll back a change of a table, and two daemons may open a database at the same time. */
export async function addEgressTables(trx: Kysely<Tables>, engine: Engine): Promise<void> {
  const run = (statement: string) => sql.raw(statement).execute(trx)
  const found = await trx.introspection.getTables()
  for (const [table, columns] of Object.entries(COLUMNS)) {
    const known = new Set(found.find(({ name }) => name === table)?.columns.map(({ name }) => name))
    for (const [name, definition] of columns)
      if (!known.has(name)) await run(`alter table ${table} add column ${name} ${definition}`)
  }
  for (const [name, columns] of TABLES) await run(`create table if not exists ${name} (${columns}) ${engine.tableOptions}`)
  for (const index of INDEXES) await run(`create ${index}`)
  try {
    await trx.insertInto('sequences').values({ name: 'approvals', value: 0 }).execute()
  } catch (error) {
    if (!engine.isUniqueViolation(error)) throw error
  }
}
