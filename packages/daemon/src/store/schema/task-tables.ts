// Schema 9: tasks and contexts, and what a session has of them.
import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engines/engine.ts'
import type { Tables } from '../tables.ts'

const TENANT = "tenant varchar(64) not null default 'default'"

const SESSION_COLUMNS: readonly (readonly [name: string, definition: string])[] = [
  ['agents', "mediumtext not null default '[]'"],
  ['agent_packages', "mediumtext not null default '[]'"],
  ['agent', 'varchar(32)'],
  ['prompt', 'mediumtext'],
]

const TABLES: readonly (readonly [name: string, columns: string])[] = [
  [
    'contexts',
    `folder varchar(64) not null primary key, ${TENANT}, context_id mediumtext not null, session_id varchar(64),
    model varchar(256), agents mediumtext not null, replies bigint not null, total_cost_usd double not null,
    max_cost_usd double, created_at bigint not null, updated_at bigint not null`,
  ],
  [
    'tasks',
    `id varchar(64) not null primary key, ${TENANT}, group_id varchar(64) not null, attempt bigint not null,
    context_folder varchar(64) not null, context_id mediumtext not null, agent varchar(32) not null, agent_version varchar(128),
    session_id varchar(64), session_name varchar(64), status varchar(32) not null, phase varchar(32) not null,
    stop_requested bigint not null, outcome varchar(32), reason varchar(32), error_message mediumtext, prompt mediumtext not null,
    model varchar(256), agent_session_id varchar(256), resumed_from varchar(256), response_text mediumtext,
    task_usage mediumtext not null, total_cost_usd double, num_turns bigint not null, exit_code bigint, check_exit_code bigint,
    tries bigint not null, event_count bigint not null, timeout_sec bigint not null, max_turns bigint, max_cost_usd double,
    has_patch bigint not null, branch varchar(256), labels mediumtext not null, spec mediumtext not null,
    created_at bigint not null, started_at bigint, ended_at bigint, delete_at bigint,
    foreign key (context_folder) references contexts (folder) on delete cascade`,
  ],
]

const INDEXES: readonly string[] = [
  'index if not exists contexts_page on contexts (tenant, updated_at, folder)',
  'index if not exists tasks_page on tasks (tenant, created_at, id)',
  'index if not exists tasks_status_page on tasks (tenant, status, created_at, id)',
  'index if not exists tasks_context_page on tasks (context_folder, created_at, id)',
  'index if not exists tasks_group_page on tasks (group_id, created_at, id)',
  'index if not exists tasks_retired on tasks (tenant, delete_at)',
]

/** Safe to repeat: MariaDB cannot roll back a change of a table, and two daemons may open a database at the same time. */
export async function addTaskTables(trx: Kysely<Tables>, engine: Engine): Promise<void> {
  const run = (statement: string) => sql.raw(statement).execute(trx)
  const found = await trx.introspection.getTables()
  const known = new Set(found.find(({ name }) => name === 'sessions')?.columns.map(({ name }) => name))
  for (const [name, definition] of SESSION_COLUMNS)
    if (!known.has(name)) await run(`alter table sessions add column ${name} ${definition}`)
  for (const [name, columns] of TABLES) await run(`create table if not exists ${name} (${columns}) ${engine.tableOptions}`)
  for (const index of INDEXES) await run(`create ${index}`)
}
