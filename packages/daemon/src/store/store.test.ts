import { statSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newId } from '@sandglass/contract'
import Database from 'better-sqlite3'
import { describe, expect, it, onTestFinished } from 'vitest'
import { temporaryFolder } from '../testing/daemon.fixture.ts'
import { eventsAfter, lastEventId, pruneEvents } from './events.ts'
import { listSessions } from './list.ts'
import { openStore, type Store } from './open.ts'
import { changeState, countByState, deleteSession, dueSessions, findSession, insertSession, nextExpiry } from './sessions.ts'
import type { SessionRow } from './tables.ts'

async function storeFixture(): Promise<{ db: Store; path: string }> {
  const path = join(await temporaryFolder(), 'x.db')
  const db = await openStore(path)
  onTestFinished(() => db.destroy())
  return { db, path }
}

function row(changes: Partial<SessionRow> = {}): SessionRow {
  const id = newId('sess_')
  const name = `n-${id.slice(5)}`
  const base: SessionRow = {
    id,
    name,
    live_name: name,
    template_id: 'tmpl_default',
    image: 'host',
    image_id: null,
    backend: 'oci',
    runtime: null,
    nested_virt: 0,
    mounts: '[]',
    container_id: null,
    status: 'running',
    is_final: 0,
    reason: 'started',
    error_message: null,
    limit_hit: null,
    resizing: null,
    mode: 'ephemeral',
    agent_id: null,
    cwd: '/workspace',
    cpu_cores: 0.5,
    memory_mb: 512,
    disk_mb: 1024,
    pids_limit: 256,
    network: 'none',
    readonly_rootfs: 1,
    unenforced: '[]',
    env_names: '[]',
    env_sealed: null,
    labels: '{}',
    ttl_seconds: 60,
    on_expiry: 'end',
    timeout_sec: null,
    created_at: 1000,
    started_at: null,
    last_activity_at: 1000,
    expires_at: null,
    terminated_at: null,
    delete_at: null,
  }
  const made = { ...base, ...changes }
  return { ...made, live_name: made.is_final ? null : made.name }
}

describe('a damaged database', () => {
  it.each([
    ['is no database at all', async (path: string) => writeFile(path, 'garbage '.repeat(1000))],
    [
      'has a torn page',
      async (path: string) => {
        await (await openStore(path)).destroy()
        const content = await readFile(path)
        await writeFile(path, content.fill(0xff, 100, 4096))
      },
    ],
  ])('that %s is named, with what to do', async (_what, damage) => {
    const path = join(await temporaryFolder(), 'x.db')
    await damage(path)
    await expect(openStore(path)).rejects.toMatchObject({
      code: 'STORE_DAMAGED',
      message: expect.stringContaining(path),
      hint: expect.stringContaining('move'),
    })
  })
})

describe('the store', () => {
  it('is for its owner alone, and opens again as it was', async () => {
    const { db, path } = await storeFixture()
    expect(statSync(path).mode & 0o777).toBe(0o600)
    const made = row({ env_sealed: Buffer.from([1, 2, 3]), labels: '{"a":"b"}' })
    await insertSession(db, made, null)
    const again = await openStore(path)
    expect(await findSession(again, { id: made.id })).toEqual(made)
    await again.destroy()
  })

  it('refuses a database that a later version wrote', async () => {
    const { path } = await storeFixture()
    new Database(path).exec("update meta set value = '999' where name = 'schema'").close()
    await expect(openStore(path)).rejects.toThrow('schema 999')
  })

  it('opens a database of schema 4 with its sessions, whose stopped ones no longer expire', async () => {
    const path = join(await temporaryFolder(), 'x.db')
    const old = new Database(path)
    old.exec(await readFile(join(import.meta.dirname, './schema-4.fixture.sql'), 'utf8'))
    const columns = row({ last_activity_at: 5000, expires_at: 65_000 })
    const names = old.prepare("select name from pragma_table_info('sessions')").pluck().all()
    const insert = old.prepare(`insert into sessions (${names}) values (${names.map(name => `@${name}`)})`)
    const add = (id: string, changes: Partial<SessionRow>) => insert.run({ ...columns, id, name: id, live_name: id, ...changes })
    add('running', {})
    add('persistent', { mode: 'persistent' })
    add('stopped', { status: 'stopped' })
    add('timed', { status: 'stopped', timeout_sec: 10 })
    add('kept', { status: 'stopped', mode: 'persistent', expires_at: null })
    add('failed', { status: 'failed', mode: 'persistent', delete_at: 9000, expires_at: null })
    old.exec("insert into session_labels values ('running', 'team', 'a')")
    old.exec("insert into events values (7, 'running', 'session.running', 'running', 'started', null, 1000)")
    old.close()

    const db = await openStore(path)
    onTestFinished(() => db.destroy())
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
    expect((await eventsAfter(db, 0, 'running', 9)).map(({ id }) => id)).toEqual([7])
    await insertSession(db, row({ ttl_seconds: null }), null)
  })

  it('stores a state and its event together or not at all', async () => {
    const { db } = await storeFixture()
    const made = row()
    await insertSession(db, made, null)
    await changeState(db, made, { status: 'paused', reason: 'requested' }, 2000)
    await expect(changeState(db, made, { status: 'stopping', reason: 'requested' }, 3000)).rejects.toThrow('no longer running')
    expect((await eventsAfter(db, 0, made.id, 10)).map(e => [e.type, e.created_at])).toEqual([
      ['session.running', 1000],
      ['session.paused', 2000],
    ])
  })

  it('frees a name when its session ends', async () => {
    const { db } = await storeFixture()
    const first = row({ name: 'same' })
    await insertSession(db, first, null)
    await expect(insertSession(db, row({ name: 'same' }), null)).rejects.toMatchObject({ code: 'NAME_TAKEN' })
    await changeState(db, first, { status: 'terminated', reason: 'requested' }, 2000)
    const second = row({ name: 'same' })
    await insertSession(db, second, null)
    expect((await findSession(db, { name: 'same' }))?.id).toBe(second.id)
  })

  it('counts by state without looking at the rows', async () => {
    const { db } = await storeFixture()
    const made = [row(), row(), row()]
    for (const r of made) await insertSession(db, r, null)
    await changeState(db, made[0] as SessionRow, { status: 'terminated', reason: 'requested' }, 1)
    await deleteSession(db, (made[1] as SessionRow).id)
    const counts = await countByState(db)
    expect([counts.get('running'), counts.get('terminated')]).toEqual([1, 1])
  })

  it('pages through a list by cursor, with nothing twice and nothing missed while rows are added', async () => {
    const { db } = await storeFixture()
    const made = Array.from({ length: 25 }, (_, i) => row({ created_at: 1000 + (i % 5) }))
    for (const r of made) await insertSession(db, r, null)
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const page = await listSessions(db, { all: false }, { limit: 4, offset: 0, cursor })
      seen.push(...page.rows.map(r => r.id))
      cursor = page.nextCursor ?? undefined
      await insertSession(db, row({ created_at: 9000 }), null)
    } while (cursor)
    expect(seen.toSorted()).toEqual(made.map(r => r.id).toSorted())
  })

  it('filters by state, name and label, and counts what it filters', async () => {
    const { db } = await storeFixture()
    await insertSession(db, row({ labels: '{"team":"a"}', name: 'one-a' }), null)
    await insertSession(db, row({ labels: '{"team":"b"}', status: 'stopped' }), null)
    await insertSession(db, row({ labels: '{"team":"a"}', status: 'terminated', is_final: 1 }), null)
    const total = async (filter: Parameters<typeof listSessions>[1]) => {
      const { total, rows } = await listSessions(db, filter, { limit: 10, offset: 0 })
      expect(rows.length).toBe(total)
      return total
    }
    expect(await total({ all: false })).toBe(2)
    expect(await total({ all: true })).toBe(3)
    expect(await total({ all: false, status: 'terminated' })).toBe(1)
    expect(await total({ all: true, label: { name: 'team', value: 'a' } })).toBe(2)
    expect(await total({ all: false, name: 'one-a' })).toBe(1)
    expect((await listSessions(db, { all: true }, { limit: 1, offset: 2 })).rows.length).toBe(1)
  })

  it('answers lists, the reaper and lookups from an index, however long the history', async () => {
    const { db, path } = await storeFixture()
    await insertSession(db, row({ expires_at: 5 }), null)
    const raw = new Database(path)
    const plan = (sql: string) =>
      (raw.prepare(`explain query plan ${sql}`).all() as { detail: string }[]).map(r => r.detail).join('; ')
    for (const sql of [
      'select * from sessions where expires_at <= 1 order by expires_at limit 9',
      'select min(expires_at) from sessions where expires_at is not null',
      'select * from sessions where delete_at <= 1 order by delete_at limit 9',
      'select * from sessions where is_final = 0 order by created_at desc, id desc limit 9',
      "select * from sessions where status = 'running' order by created_at desc, id desc limit 9",
      "select * from sessions where is_final = 0 and (created_at, id) < (1, 'x') order by created_at desc, id desc limit 9",
      "select * from sessions where live_name = 'x'",
      "select * from sessions where name = 'x' order by created_at desc limit 1",
      "select * from events where id > 1 and session_id = 'x' order by id limit 9",
    ]) {
      expect(plan(sql), sql).toMatch(/USING (COVERING )?INDEX|USING INTEGER PRIMARY KEY/)
      expect(plan(sql), sql).not.toContain('TEMP B-TREE')
    }
    raw.close()
    expect([await nextExpiry(db), (await dueSessions(db, 5, 9)).length]).toEqual([5, 1])
  })

  it('keeps the latest events and forgets the oldest', async () => {
    const { db } = await storeFixture()
    for (let i = 0; i < 10; i++) await insertSession(db, row(), null)
    await pruneEvents(db, 3)
    expect((await eventsAfter(db, 0, null, 100)).map(e => e.id)).toEqual([8, 9, 10])
    expect(await lastEventId(db)).toBe(10)
  })
})
