import { createHash } from 'node:crypto'
import { newId } from '@sandglass/contract'
import { describe, expect, it } from 'vitest'
import { ENGINES, locationFixture, openedStore, sessionRow, storeFixture } from './engines.fixture.ts'
import { eventsAfter, lastEventId, pruneEvents } from './events.ts'
import { findIdempotency, storeIdempotency } from './idempotency.ts'
import { admitImage, deleteImage, listImages, namelessImages, referencesOf, removeReferences } from './images.ts'
import { listSessions } from './list.ts'
import { deleteSecret, listSecrets, putSecret } from './secrets.ts'
import { changeState, countByState, deleteSession, findSession, insertSession } from './sessions.ts'
import type { ImageRow, SessionRow } from './tables.ts'

const SESSIONS = { resource_kind: 'session' } as const

describe.each(ENGINES)('the store on %s', engine => {
  it('opens again with the rows it had', async () => {
    const location = await locationFixture(engine)
    const made = sessionRow({ env_sealed: Buffer.from([1, 2, 3]), labels: '{"a":"b"}' })
    await insertSession(await openedStore(location), made, null)
    expect(await findSession(await openedStore(location), { id: made.id })).toEqual(made)
  })

  it('stores a state and its event together or not at all', async () => {
    const db = await storeFixture(engine)
    const made = sessionRow()
    await insertSession(db, made, null)
    await changeState(db, made, { status: 'paused', reason: 'requested' }, 2000)
    await expect(changeState(db, made, { status: 'stopping', reason: 'requested' }, 3000)).rejects.toThrow('no longer running')
    expect(
      (await eventsAfter(db, 0, { resource_kind: 'session', resource_id: made.id }, 10)).map(e => [e.type, e.created_at]),
    ).toEqual([
      ['session.running', 1000],
      ['session.paused', 2000],
    ])
  })

  it('frees a name when its session ends', async () => {
    const db = await storeFixture(engine)
    const first = sessionRow({ name: 'same' })
    await insertSession(db, first, null)
    await expect(insertSession(db, sessionRow({ name: 'same' }), null)).rejects.toMatchObject({ code: 'NAME_TAKEN' })
    await changeState(db, first, { status: 'terminated', reason: 'requested' }, 2000)
    const second = sessionRow({ name: 'same' })
    await insertSession(db, second, null)
    expect((await findSession(db, { name: 'same' }))?.id).toBe(second.id)
  })

  it('counts by state without a scan of the rows', async () => {
    const db = await storeFixture(engine)
    const made = [sessionRow(), sessionRow(), sessionRow()]
    for (const r of made) await insertSession(db, r, null)
    await changeState(db, made[0] as SessionRow, { status: 'terminated', reason: 'requested' }, 1)
    await deleteSession(db, (made[1] as SessionRow).id)
    const counts = await countByState(db)
    expect([counts.get('running'), counts.get('terminated')]).toEqual([1, 1])
  })

  it('pages through a list by cursor, with nothing twice and nothing missed while rows are added', async () => {
    const db = await storeFixture(engine)
    const made = Array.from({ length: 25 }, (_, i) => sessionRow({ created_at: 1000 + (i % 5) }))
    for (const r of made) await insertSession(db, r, null)
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const page = await listSessions(db, { all: false }, { limit: 4, offset: 0, cursor })
      seen.push(...page.rows.map(r => r.id))
      cursor = page.nextCursor ?? undefined
      await insertSession(db, sessionRow({ created_at: 9000 }), null)
    } while (cursor)
    expect(seen.toSorted()).toEqual(made.map(r => r.id).toSorted())
  })

  it('filters by state, name and label, and counts what it filters', async () => {
    const db = await storeFixture(engine)
    await insertSession(db, sessionRow({ labels: '{"team":"a"}', name: 'one-a' }), null)
    await insertSession(db, sessionRow({ labels: '{"team":"b"}', status: 'stopped' }), null)
    await insertSession(db, sessionRow({ labels: '{"team":"a"}', status: 'terminated', is_final: 1 }), null)
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

  it('keeps the latest events and forgets the oldest', async () => {
    const db = await storeFixture(engine)
    for (let i = 0; i < 10; i++) await insertSession(db, sessionRow(), null)
    await pruneEvents(db, 3)
    expect((await eventsAfter(db, 0, SESSIONS, 100)).map(e => e.id)).toEqual([8, 9, 10])
    expect(await lastEventId(db)).toBe(10)
  })

  it('shows events in the order of their ids while many sessions change at once', async () => {
    const db = await storeFixture(engine)
    const made = Array.from({ length: 12 }, () => sessionRow())
    let isDone = false
    const changes = Promise.all(
      made.map(async first => {
        await insertSession(db, first, null)
        const row = await changeState(db, first, { status: 'paused', reason: 'requested' }, 2000)
        await changeState(db, row, { status: 'running', reason: 'requested' }, 3000)
      }),
    ).finally(() => {
      isDone = true
    })
    const seen: number[] = []
    const read = async () => seen.push(...(await eventsAfter(db, seen.at(-1) ?? 0, SESSIONS, 100)).map(({ id }) => id))
    while (!isDone) await read()
    await changes
    await read()
    expect(seen).toEqual(Array.from({ length: 36 }, (_, i) => i + 1))
    expect((await countByState(db)).get('running')).toBe(12)
  })

  it('gives a name to one of many sessions that ask for it at once', async () => {
    const db = await storeFixture(engine)
    const rows = Array.from({ length: 8 }, () => sessionRow({ name: 'same' }))
    const results = await Promise.allSettled(rows.map(row => insertSession(db, row, null)))
    const refused = results.filter(result => result.status === 'rejected').map(({ reason }) => reason.code)
    expect(refused).toEqual(Array(7).fill('NAME_TAKEN'))
    expect((await countByState(db)).get('running')).toBe(1)
  })

  it('deletes the labels, events and idempotency keys of a session with it', async () => {
    const db = await storeFixture(engine)
    const [gone, kept] = [sessionRow({ labels: '{"a":"b"}' }), sessionRow({ labels: '{"a":"b"}' })]
    const request = { key: 'k', request_hash: 'h', response: null, created_at: 1000 }
    await insertSession(db, gone, { ...request, route: 'POST /v1/sessions' })
    await insertSession(db, kept, null)
    const inside = { ...request, resource_kind: 'session', resource_id: kept.id } as const
    await storeIdempotency(db, { ...inside, route: 'x', response: '{}' })
    await deleteSession(db, gone.id)
    await deleteSession(db, gone.id)
    expect((await eventsAfter(db, 0, SESSIONS, 9)).map(event => event.resource_id)).toEqual([kept.id])
    expect(await findIdempotency(db, 'k', 'POST /v1/sessions', 2000)).toBeUndefined()
    expect(await findIdempotency(db, 'k', 'x', 2000)).toMatchObject({ resource_id: kept.id, response: '{}' })
    expect((await listSessions(db, { all: true, label: { name: 'a', value: 'b' } }, { limit: 9, offset: 0 })).total).toBe(1)
  })

  it('compares text byte by byte and keeps any character', async () => {
    const db = await storeFixture(engine)
    const values = ['a', 'A', 'a ', 'ä', '💾', '']
    for (const value of values) await insertSession(db, sessionRow({ labels: JSON.stringify({ v: value }) }), null)
    for (const value of values) {
      const { rows } = await listSessions(db, { all: true, label: { name: 'v', value } }, { limit: 9, offset: 0 })
      expect(rows.map(row => row.labels)).toEqual([JSON.stringify({ v: value })])
    }
  })

  it('keeps texts of a mebibyte and exact times', async () => {
    const db = await storeFixture(engine)
    const made = sessionRow({
      error_message: 'ü'.repeat(512 * 1024),
      created_at: 1_794_844_800_123,
      env_sealed: Buffer.alloc(100_000, 7),
    })
    await insertSession(db, made, null)
    expect(await findSession(db, { id: made.id })).toEqual(made)
  })

  it('adds a name to an image that is stored already, also when several pulls end at once', async () => {
    const db = await storeFixture(engine)
    const image = imageRow({ created_at: 1 })
    const names = ['a:1', 'b:1', 'c:1']
    await Promise.all(names.map((name, i) => admitImage(db, { ...image, last_used_at: 10 + i }, [name])))
    expect(await referencesOf(db, image.id)).toEqual(names)
    await admitImage(db, imageRow({ created_at: 2 }), ['a:1'])
    expect(await referencesOf(db, image.id)).toEqual(['b:1', 'c:1'])
    await removeReferences(db, ['b:1', 'c:1'])
    expect((await namelessImages(db)).map(({ id }) => id)).toEqual([image.id])
    await deleteImage(db, image.id)
    expect((await listImages(db, { limit: 9, offset: 0 })).rows.map(({ references }) => references)).toEqual([['a:1']])
  })

  it('pages through images and secrets by cursor', async () => {
    const db = await storeFixture(engine)
    for (let i = 0; i < 5; i++) {
      await admitImage(db, imageRow({ created_at: i % 2 }), [])
      await putSecret(db, `s${i}`, { nonce: Buffer.alloc(12), ciphertext: Buffer.from('x') }, undefined, i)
    }
    await putSecret(db, 's0', { nonce: Buffer.alloc(12), ciphertext: Buffer.from('y') }, undefined, 9)
    const images = await pages(cursor => listImages(db, { limit: 2, offset: 0, cursor }))
    expect(new Set(images.map(({ id }) => id)).size).toBe(5)
    const secrets = await pages(cursor => listSecrets(db, { limit: 2, offset: 0, cursor }))
    expect(secrets.map(({ name, created_at, updated_at }) => [name, created_at, updated_at])).toEqual([
      ['s0', 0, 9],
      ...[1, 2, 3, 4].map(i => [`s${i}`, i, i]),
    ])
    expect([await deleteSecret(db, 's1'), await deleteSecret(db, 's1')]).toEqual([true, false])
  })
})

async function pages<T>(page: (cursor: string | undefined) => Promise<{ rows: T[]; total: number; nextCursor: string | null }>) {
  const all: T[] = []
  let cursor: string | undefined
  do {
    const { rows, total, nextCursor } = await page(cursor)
    expect(total).toBe(5)
    all.push(...rows)
    cursor = nextCursor ?? undefined
  } while (cursor !== undefined)
  return all
}

const imageRow = (changes: Partial<ImageRow>): ImageRow => ({
  id: `sha256:${createHash('sha256').update(newId('')).digest('hex')}`,
  manifest_digest: '',
  source: 'archive',
  architecture: 'amd64',
  config: '{}',
  layers: '[]',
  size_bytes: 5_000_000_000,
  created_at: 1,
  last_used_at: 1,
  ...changes,
})
