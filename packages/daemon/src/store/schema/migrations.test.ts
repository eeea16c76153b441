import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { type Kysely, sql } from 'kysely'
import { describe, expect, it, onTestFinished } from 'vitest'
import { temporaryFolder } from '../../testing/daemon.fixture.ts'
import { openSqlite } from '../engines/sqlite.ts'
import { ENGINES, locationFixture, openedStore, sessionRow, storeFixture } from '../engines.fixture.ts'
import { eventsAfter, lastEventId } from '../events.ts'
import { findIdempotency } from '../idempotency.ts'
import { findBuild, findImageNamed } from '../images.ts'
import { listSessions } from '../list.ts'
import { openEngine, openStore, Store } from '../open.ts'
import { findSecret } from '../secrets.ts'
import { countByState, findSession, insertSession } from '../sessions.ts'
import type { SessionRow, Tables } from '../tables.ts'
import { migrate, STEPS } from './migrations.ts'
import { columnsOf, oldDatabase } from './old-schema.fixture.ts'

const pathFixture = async () => join(await temporaryFolder(), 'x.db')

function addSession(old: Database.Database, changes: Partial<SessionRow>): void {
  const columns = columnsOf(old, 'sessions')
  const row = { ...sessionRow({ last_activity_at: 5000, expires_at: 65_000 }), live_name: changes.name, ...changes }
  old.prepare(`insert into sessions (${columns}) values (${columns.map(name => `@${name}`)})`).run(row)
}

describe.each(ENGINES)('a database on %s', engine => {
  it('that a later version wrote is refused', async () => {
    const location = await locationFixture(engine)
    const db = await openedStore(location)
    await db.updateTable('meta').set({ value: '999' }).where('name', '=', 'schema').execute()
    await expect(openStore(location)).rejects.toThrow('schema 999')
  })

  it('whose creation was interrupted is completed', async () => {
    const location = await locationFixture(engine)
    const db = await openedStore(location)
    for (const table of ['secrets', 'image_builds']) await db.schema.dropTable(table).execute()
    await db.deleteFrom('meta').execute()
    expect(await describeSchema(await openedStore(location))).toEqual(await describeSchema(await storeFixture(engine)))
  })

  it('that two daemons create keeps the events that the first has stored', async () => {
    const location = await locationFixture(engine)
    const first = await openedStore(location)
    await insertSession(first, sessionRow(), null)
    // The second daemon looks for the schema before the first has stored it.
    await first.deleteFrom('meta').where('name', '=', 'schema').execute()
    const second = await openedStore(location)
    expect(await lastEventId(second)).toBe(1)
    await insertSession(second, sessionRow(), null)
    expect(await lastEventId(first)).toBe(2)
  })

  it('of schema 7 is opened with its sessions and secrets, which have no policies and no settings', async () => {
    const location = await locationFixture(engine)
    const db = new Store(await openEngine(location))
    onTestFinished(() => db.destroy())
    await migrate(db, [])
    const later = [
      'policies',
      'policy_mode',
      'secrets',
      'ca_fingerprint',
      'warnings',
      'agents',
      'agent_packages',
      'agent',
      'prompt',
    ]
    const old = Object.fromEntries(Object.entries(sessionRow({ id: 'old' })).filter(([name]) => !later.includes(name)))
    await db
      .insertInto('sessions')
      .values(old as unknown as SessionRow)
      .execute()
    await sql`insert into secrets (name, ciphertext, nonce, created_at, updated_at) values ('s', 'x', 'y', 1, 2)`.execute(db)
    await migrate(db)
    expect(await findSession(db, { id: 'old' })).toMatchObject({
      policies: '[]',
      policy_mode: null,
      secrets: '[]',
      ca_fingerprint: null,
      warnings: '[]',
      agents: '[]',
      agent_packages: '[]',
      agent: null,
      prompt: null,
    })
    expect(await findSecret(db, 's')).toMatchObject({ settings: null, updated_at: 2 })
    expect(await describeSchema(db)).toEqual(await describeSchema(await storeFixture(engine)))
  })

  it('goes through each later step once, whether it is new or not', async () => {
    const db = await storeFixture(engine)
    const steps = ['a', 'b'].map(name => async (trx: Kysely<Tables>) => {
      await trx.insertInto('meta').values({ name, value: '' }).execute()
    })
    const [one, two] = [
      [...STEPS, ...steps.slice(0, 1)],
      [...STEPS, ...steps],
    ]
    await migrate(db, one)
    await migrate(db, two)
    await migrate(db, two)
    expect(await metaRows(db)).toEqual({ a: '', b: '', schema: '11' })
    await expect(migrate(db, one)).rejects.toThrow('schema 11, and this version knows 10')
    await db.deleteFrom('meta').execute()
    await migrate(db, two)
    expect(await metaRows(db)).toEqual({ a: '', b: '', schema: '11' })
  })
})

it('opens a database of schema 4 with its sessions, whose stopped ones no longer expire', async () => {
  const path = await pathFixture()
  const old = new Database(path)
  old.exec(await readFile(join(import.meta.dirname, 'schema-4.fixture.sql'), 'utf8'))
  const add = (id: string, changes: Partial<SessionRow>) => addSession(old, { id, name: id, ...changes })
  add('running', {})
  add('persistent', { mode: 'persistent' })
  add('stopped', { status: 'stopped' })
  add('timed', { status: 'stopped', timeout_sec: 10 })
  add('kept', { status: 'stopped', mode: 'persistent', expires_at: null })
  add('failed', { status: 'failed', mode: 'persistent', delete_at: 9000, expires_at: null })
  old.exec("insert into session_labels values ('running', 'team', 'a')")
  old.exec("insert into events values (7, 'running', 'session.running', 'running', 'started', null, 1000)")
  old.close()

  const db = await openedStore({ engine: 'sqlite', path })
  const found = await db.selectFrom('sessions').selectAll().orderBy('id').execute()
  expect(Object.fromEntries(found.map(r => [r.id, [r.ttl_seconds, r.on_expiry, r.expires_at, r.delete_at]]))).toEqual({
    running: [60, 'end', 65_000, null],
    persistent: [60, 'stop', 65_000, null],
    stopped: [60, 'end', 604_805_000, null],
    timed: [60, 'end', 11_000, null],
    kept: [60, 'stop', null, null],
    failed: [60, 'stop', null, null],
  })
  expect((await countByState(db)).get('stopped')).toBe(3)
  expect((await listSessions(db, { all: true, label: { name: 'team', value: 'a' } }, { limit: 9, offset: 0 })).total).toBe(1)
  expect((await eventsAfter(db, 0, { resource_kind: 'session', resource_id: 'running' }, 9)).map(({ id }) => id)).toEqual([7])
  await insertSession(db, sessionRow({ ttl_seconds: null }), null)
})

it('opens a database of schema 6 with every row', async () => {
  const path = await pathFixture()
  const old = oldDatabase(path, 6)
  const row = sessionRow({
    name: 'box',
    labels: '{"team":"a"}',
    env_sealed: Buffer.from([1, 2]),
    cpu_cores: 1.5,
    image_id: 'sha256:1',
  })
  addSession(old, row)
  addSession(old, { ...sessionRow({ is_final: 1, status: 'terminated', name: 'box' }), live_name: null })
  const statements = `
    insert into session_labels values ('${row.id}', 'team', 'a');
    insert into events values (8, '${row.id}', 'session.running', 'running', 'started', null, 1000);
    insert into events values (9, '${row.id}', 'session.paused', 'paused', 'requested', 'why', 1001);
    delete from events where id = 9;
    insert into idempotency values ('k', 'createSession', 'h', '${row.id}', null, 1000);
    insert into idempotency values ('k', 'startProcess box', 'h', '${row.id}', '{"pid":1}', 1000);
    insert into images values ('sha256:1', 'm', 'build', 'amd64', '{}', '[]', 5, 1, 2);
    insert into image_references values ('a:1', 'sha256:1', 3);
    insert into image_builds values ('b', 'sha256:1', 4);
    insert into secrets values ('s', x'0102', x'03', 5, 6);
    insert into meta values ('secret_key', 'f')`
  old.exec(statements)
  old.close()

  const db = await openedStore({ engine: 'sqlite', path })
  expect(await findSession(db, { name: 'box' })).toEqual(row)
  expect([...(await countByState(db))]).toEqual(
    expect.arrayContaining([
      ['running', 1],
      ['terminated', 1],
    ]),
  )
  expect(await eventsAfter(db, 0, { resource_kind: 'session', resource_id: row.id }, 9)).toMatchObject([
    { id: 8, type: 'session.running' },
  ])
  await insertSession(db, sessionRow(), null)
  expect(await lastEventId(db)).toBe(10)
  const key = (route: string) => findIdempotency(db, 'k', route, 2000)
  expect(await key('POST /v1/sessions')).toMatchObject({ resource_kind: 'session', resource_id: row.id, response: null })
  expect(await key(`POST /v1/sessions/${row.id}/processes`)).toMatchObject({ response: '{"pid":1}' })
  expect(await findImageNamed(db, 'a:1')).toMatchObject({ id: 'sha256:1', size_bytes: 5, last_used_at: 2 })
  expect(await findBuild(db, 'b')).toMatchObject({ image_id: 'sha256:1', built_at: 4 })
  expect(await findSecret(db, 's')).toMatchObject({ ciphertext: Buffer.from([1, 2]), nonce: Buffer.from([3]), updated_at: 6 })
  expect(await db.selectFrom('meta').selectAll().orderBy('name').execute()).toEqual([
    { name: 'schema', value: '9' },
    { name: 'secret_key', value: 'f' },
  ])
})

it('opens a database of schema 6 whose session was named in two ways under one idempotency key, with the newest reply', async () => {
  const path = await pathFixture()
  const old = oldDatabase(path, 6)
  const row = sessionRow({ name: 'box' })
  addSession(old, row)
  const add = old.prepare("insert into idempotency values ('k', ?, 'h', ?, ?, ?)")
  for (const route of ['createShell', 'startProcess']) {
    add.run(`${route} box`, row.id, '"newest"', 1001)
    add.run(`${route} ${row.id}`, row.id, '"oldest"', 1000)
  }
  old.close()

  const db = await openedStore({ engine: 'sqlite', path })
  for (const route of ['shells', 'processes'])
    expect(await findIdempotency(db, 'k', `POST /v1/sessions/${row.id}/${route}`, 2000)).toMatchObject({ response: '"newest"' })
})

it('goes from schema 6 through each later step', async () => {
  const path = await pathFixture()
  oldDatabase(path, 6).close()
  const db = new Store(openSqlite(path))
  onTestFinished(() => db.destroy())
  await migrate(db, [trx => trx.schema.createTable('later').addColumn('name', 'text').execute()])
  expect(await metaRows(db)).toEqual({ schema: '8' })
  expect(await describeSchema(db)).toContainEqual(expect.stringContaining('"later"'))
})

it('has the same schema when it is new, when it was migrated, and on both engines', async () => {
  const [sqlite, mariadb] = [await storeFixture('sqlite'), await storeFixture('mariadb')]
  const path = await pathFixture()
  oldDatabase(path, 1).close()
  const migrated = await openedStore({ engine: 'sqlite', path })
  const statements = (db: Store) =>
    sql`select name, sql from sqlite_master where name not like 'sqlite_%' order by name`.execute(db).then(({ rows }) => rows)
  expect(await statements(migrated)).toEqual(await statements(sqlite))
  expect(await describeSchema(mariadb)).toEqual(await describeSchema(sqlite))
})

async function metaRows(db: Store): Promise<Record<string, string>> {
  const rows = await db.selectFrom('meta').selectAll().execute()
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]))
}

/** Columns with their types, and indexes with their columns, by table. */
async function describeSchema(db: Store): Promise<unknown> {
  const isSqlite = db.engine.tableOptions === ''
  const { rows: columns } = await (isSqlite ? SQLITE_COLUMNS : MARIADB_COLUMNS).execute(db)
  const { rows: indexes } = await (isSqlite ? SQLITE_INDEXES : MARIADB_INDEXES).execute(db)
  return [...columns, ...indexes].map(row => JSON.stringify(row)).sort()
}

const SQLITE_COLUMNS = sql`select t.name as tab, c.name as name, c.type as type, c."notnull" as is_required
  from sqlite_master t join pragma_table_info(t.name) c where t.type = 'table' and t.name not like 'sqlite_%'`
const MARIADB_COLUMNS = sql`select table_name as tab, column_name as name, replace(column_type, 'bigint(20)', 'bigint') as type,
  is_nullable = 'NO' as is_required from information_schema.columns where table_schema = database()`
const SQLITE_INDEXES = sql`select t.name as tab, case i.origin when 'pk' then 'PRIMARY' else i.name end as name, i."unique" as is_unique,
  group_concat(c.name) as cols
  from sqlite_master t join pragma_index_list(t.name) i join pragma_index_info(i.name) c where t.type = 'table'
  group by t.name, i.name`
const MARIADB_INDEXES = sql`select table_name as tab, index_name as name, non_unique = 0 as is_unique,
  group_concat(column_name order by seq_in_index) as cols
  from information_schema.statistics where table_schema = database() group by table_name, index_name, non_unique`
