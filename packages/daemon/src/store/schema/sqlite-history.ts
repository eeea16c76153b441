// Schemas 1 to 6, which existed on SQLite only, and the step from the last of them to the schema that both engines share.
// A data folder of an older version still opens through these steps, so they never change.
import { type Kysely, sql } from 'kysely'
import type { Tables } from '../tables.ts'
import { createStatements, TABLES } from './schema.ts'

const FIRST = [
  `create table sessions (
    id text primary key, name text not null, live_name text, template_id text not null, image text not null,
    backend text not null, container_id text, status text not null, is_final integer not null, reason text not null,
    error_message text, mode text not null, agent_id text, cwd text not null, cpu_cores real not null,
    memory_mb integer not null, disk_mb integer not null, pids_limit integer not null, network text not null,
    readonly_rootfs integer not null, unenforced text not null, env_names text not null, env_sealed blob,
    labels text not null, ttl_seconds integer not null, timeout_sec integer, created_at integer not null,
    started_at integer, last_activity_at integer not null, expires_at integer, terminated_at integer, delete_at integer
  ) strict`,
  'create unique index sessions_live_name on sessions (live_name) where live_name is not null',
  'create index sessions_name on sessions (name, created_at)',
  'create index sessions_page on sessions (created_at, id)',
  'create index sessions_live_page on sessions (is_final, created_at, id)',
  'create index sessions_status_page on sessions (status, created_at, id)',
  'create index sessions_expires on sessions (expires_at) where expires_at is not null',
  'create index sessions_delete on sessions (delete_at) where delete_at is not null',
  `create table session_labels (
    session_id text not null references sessions (id) on delete cascade, name text not null, value text not null,
    primary key (name, value, session_id)
  ) strict, without rowid`,
  'create index session_labels_session on session_labels (session_id)',
  'create table session_counts (status text primary key, n integer not null) strict, without rowid',
  `create trigger sessions_counted after insert on sessions begin
    insert into session_counts values (new.status, 1) on conflict (status) do update set n = n + 1; end`,
  `create trigger sessions_uncounted after delete on sessions begin
    update session_counts set n = n - 1 where status = old.status; end`,
  `create trigger sessions_recounted after update of status on sessions when new.status <> old.status begin
    update session_counts set n = n - 1 where status = old.status;
    insert into session_counts values (new.status, 1) on conflict (status) do update set n = n + 1; end`,
  `create table events (
    id integer primary key autoincrement, session_id text not null references sessions (id) on delete cascade,
    type text not null, status text not null, reason text not null, error_message text, created_at integer not null
  ) strict`,
  'create index events_session on events (session_id, id)',
  `create table idempotency (
    key text not null, route text not null, request_hash text not null,
    session_id text references sessions (id) on delete cascade, response text, created_at integer not null,
    primary key (key, route)
  ) strict, without rowid`,
  'create index idempotency_age on idempotency (created_at)',
  'create index idempotency_session on idempotency (session_id)',
]

const IMAGES = [
  `create table images (
    id text primary key, manifest_digest text not null, source text not null, architecture text not null, config text not null,
    layers text not null, size_bytes integer not null, created_at integer not null, last_used_at integer not null
  ) strict`,
  `create table image_references (
    reference text primary key, image_id text not null references images (id) on delete cascade, resolved_at integer not null
  ) strict, without rowid`,
  'create index image_references_image on image_references (image_id)',
  'alter table sessions add column image_id text',
  'alter table sessions add column runtime text',
  'alter table sessions add column nested_virt integer not null default 0',
  "alter table sessions add column mounts text not null default '[]'",
]

const SECRETS = [
  `create table secrets (
    name text primary key, ciphertext blob not null, nonce blob not null, created_at integer not null, updated_at integer not null
  ) strict`,
]

const BUILDS = [
  `create table image_builds (
    key text primary key, image_id text not null references images (id) on delete cascade, built_at integer not null
  ) strict, without rowid`,
  'create index image_builds_image on image_builds (image_id)',
  'create index image_builds_age on image_builds (built_at)',
]

const LIFETIMES = [
  // SQLite cannot drop the constraint `not null` from a column, so a second column takes its place.
  'alter table sessions add column ttl integer',
  'update sessions set ttl = ttl_seconds',
  'alter table sessions drop column ttl_seconds',
  'alter table sessions rename column ttl to ttl_seconds',
  "alter table sessions add column on_expiry text not null default 'end'",
  "update sessions set on_expiry = 'stop' where mode = 'persistent'",
  // Stopped sessions no longer expire; ephemeral ones are kept for a week after their last use.
  `update sessions set expires_at = min(last_activity_at + 604800000, ifnull(created_at + timeout_sec * 1000, 9007199254740991))
    where status = 'stopped' and mode = 'ephemeral'`,
  "update sessions set delete_at = null where status = 'failed' and mode = 'persistent'",
]

const LIMIT_CHANGES = ['alter table sessions add column limit_hit text', 'alter table sessions add column resizing text']

/** The statement list at index n leads from schema n to schema n + 1. */
export const SQLITE_HISTORY: readonly (readonly string[])[] = [FIRST, IMAGES, SECRETS, BUILDS, LIFETIMES, LIMIT_CHANGES]

/** Rebuilds every table in the shared form: renames the old tables, creates the new ones, copies the rows, drops the old tables. */
export async function rebuildTables(trx: Kysely<Tables>): Promise<void> {
  const run = (statement: string) => sql.raw<{ name: string; type: string }>(statement).execute(trx)
  const { rows } = await run("select name, type from sqlite_master where sql is not null and name not like 'sqlite_%'")
  // Names of indexes and triggers belong to the whole database, so the old ones go first.
  for (const { name, type } of rows) if (type !== 'table') await run(`drop ${type} ${name}`)
  const tables = rows.filter(({ type }) => type === 'table').map(({ name }) => name)
  for (const table of tables) await run(`alter table ${table} rename to old_${table}`)
  for (const statement of createStatements('')) await run(statement)
  for (const statement of COPIES) await run(statement)
  const order = TABLES.map(([name]) => name)
  for (const table of tables.sort((a, b) => order.indexOf(b) - order.indexOf(a))) await run(`drop table old_${table}`)
}

const SESSION_COLUMNS = `id, name, live_name, template_id, image, image_id, backend, container_id, status, is_final, reason,
  error_message, limit_hit, mode, agent_id, cwd, cpu_cores, memory_mb, disk_mb, pids_limit, resizing, network, runtime, nested_virt,
  mounts, readonly_rootfs, unenforced, env_names, env_sealed, labels, ttl_seconds, on_expiry, timeout_sec, created_at, started_at,
  last_activity_at, expires_at, terminated_at, delete_at`
const IMAGE_COLUMNS = 'id, manifest_digest, source, architecture, config, layers, size_bytes, created_at, last_used_at'
const EVENT_COLUMNS = 'id, type, status, reason, error_message, created_at'

const COPIES = [
  'insert into meta select name, value from old_meta',
  `insert into sessions (${SESSION_COLUMNS}) select ${SESSION_COLUMNS} from old_sessions`,
  'insert into session_labels (session_id, name, value) select session_id, name, value from old_session_labels',
  'insert into session_counts (status, n) select status, count(*) from old_sessions group by status',
  `insert into events (resource_kind, resource_id, ${EVENT_COLUMNS}) select 'session', session_id, ${EVENT_COLUMNS} from old_events`,
  // The ids continue, although the latest events may be deleted.
  "insert into sequences (name, value) values ('events', ifnull((select seq from sqlite_sequence where name = 'old_events'), 0))",
  // The old routes have the session as the request named it. One by name and one by id become the same route: the newest row stays.
  `insert or replace into idempotency (key, route, request_hash, resource_kind, resource_id, response, created_at)
    select key, case
      when route = 'createSession' then 'POST /v1/sessions'
      when route like 'createShell %' then 'POST /v1/sessions/' || session_id || '/shells'
      else 'POST /v1/sessions/' || session_id || '/processes' end,
    request_hash, 'session', session_id, response, created_at from old_idempotency where session_id is not null order by created_at`,
  `insert into images (${IMAGE_COLUMNS}) select ${IMAGE_COLUMNS} from old_images`,
  'insert into image_references (reference, image_id, resolved_at) select reference, image_id, resolved_at from old_image_references',
  'insert into image_builds (key, image_id, built_at) select key, image_id, built_at from old_image_builds',
  `insert into secrets (name, ciphertext, nonce, created_at, updated_at)
    select name, ciphertext, nonce, created_at, updated_at from old_secrets`,
]
