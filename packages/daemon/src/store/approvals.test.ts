import { newId } from '@sandglass/contract'
import { describe, expect, it } from 'vitest'
import {
  type ApprovalChange,
  approvalsAfter,
  findApproval,
  lastRevision,
  listApprovals,
  pendingApprovals,
  pruneApprovals,
  putApprovals,
} from './approvals.ts'
import { ENGINES, sessionRow, storeFixture } from './engines.fixture.ts'
import type { Store } from './open.ts'
import { deleteSession, insertSession } from './sessions.ts'

const PAGE = { limit: 10, offset: 0 }

async function sessionFixture(db: Store): Promise<string> {
  const row = sessionRow()
  await insertSession(db, row, null)
  return row.id
}

const approval = (session_id: string, changes: Partial<ApprovalChange> = {}): ApprovalChange => ({
  id: newId('appr_'),
  session_id,
  session_name: 'box',
  status: 'pending',
  method: 'GET',
  url: 'https://example.com/a',
  host: 'example.com',
  port: 443,
  scope: null,
  requests: 1,
  created_at: 1000,
  expires_at: 2000,
  answered_at: null,
  ...changes,
})

describe.each(ENGINES)('approvals on %s', engine => {
  it('are found again as they were stored, and with the revision of their last change', async () => {
    const db = await storeFixture(engine)
    const made = approval(await sessionFixture(db))
    await putApprovals(db, [made])
    await putApprovals(db, [{ ...made, requests: 2 }])
    expect(await findApproval(db, made.id)).toEqual({ ...made, tenant: 'default', requests: 2, revision: 2 })
  })

  it('that have not changed keep their revision', async () => {
    const db = await storeFixture(engine)
    const made = approval(await sessionFixture(db))
    for (let i = 0; i < 3; i++) await putApprovals(db, [made])
    expect(await lastRevision(db)).toBe(1)
  })

  it('that have an answer do not become pending again', async () => {
    const db = await storeFixture(engine)
    const made = approval(await sessionFixture(db))
    await putApprovals(db, [made])
    await putApprovals(db, [{ ...made, status: 'allowed', scope: 'once', answered_at: 1500 }])
    await putApprovals(db, [{ ...made, requests: 5 }])
    expect(await findApproval(db, made.id)).toMatchObject({ status: 'allowed', answered_at: 1500, requests: 1 })
    expect(await pendingApprovals(db)).toEqual([])
  })

  it('of a session without a row are left out, and are deleted with the row', async () => {
    const db = await storeFixture(engine)
    const [gone, kept] = [await sessionFixture(db), await sessionFixture(db)]
    const rows = [approval(gone), approval(kept), approval('sess_unknownunknown')]
    await putApprovals(db, rows)
    expect((await listApprovals(db, {}, PAGE)).total).toBe(2)
    await deleteSession(db, gone)
    expect((await listApprovals(db, {}, PAGE)).rows.map(row => row.session_id)).toEqual([kept])
  })

  it('are listed newest first, page by page, by state and by session', async () => {
    const db = await storeFixture(engine)
    const [one, two] = [await sessionFixture(db), await sessionFixture(db)]
    const made = Array.from({ length: 7 }, (_, i) =>
      approval(i < 4 ? one : two, { created_at: 1000 + i, status: i % 2 === 0 ? 'pending' : 'denied' }),
    )
    await putApprovals(db, made)
    const seen: number[] = []
    let cursor: string | undefined
    do {
      const page = await listApprovals(db, {}, { limit: 3, offset: 0, cursor })
      seen.push(...page.rows.map(row => row.created_at - 1000))
      cursor = page.nextCursor ?? undefined
    } while (cursor)
    expect(seen).toEqual([6, 5, 4, 3, 2, 1, 0])
    const found = async (filter: Parameters<typeof listApprovals>[1]) => {
      const { rows, total } = await listApprovals(db, filter, PAGE)
      expect(rows.length).toBe(total)
      return rows.map(row => row.created_at - 1000)
    }
    expect(await found({ status: 'denied' })).toEqual([5, 3, 1])
    expect(await found({ sessionId: two })).toEqual([6, 5, 4])
    expect(await found({ sessionId: one, status: 'pending' })).toEqual([2, 0])
  })

  it('are read on after a revision, each as it is now', async () => {
    const db = await storeFixture(engine)
    const session = await sessionFixture(db)
    const [first, second] = [approval(session), approval(session)]
    await putApprovals(db, [first, second])
    await putApprovals(db, [{ ...first, status: 'expired' }])
    expect((await approvalsAfter(db, 0, 9)).map(row => [row.id, row.status])).toEqual([
      [second.id, 'pending'],
      [first.id, 'expired'],
    ])
    expect(await approvalsAfter(db, 3, 9)).toEqual([])
  })

  it('are pruned to the latest, but for those that are pending', async () => {
    const db = await storeFixture(engine)
    const session = await sessionFixture(db)
    const made = Array.from({ length: 6 }, (_, i) => approval(session, { status: i === 0 ? 'pending' : 'denied', created_at: i }))
    await putApprovals(db, made)
    await pruneApprovals(db, 2)
    expect((await listApprovals(db, {}, PAGE)).rows.map(row => row.created_at)).toEqual([5, 4, 0])
    await pruneApprovals(db, 10)
    expect((await listApprovals(db, {}, PAGE)).total).toBe(3)
  })
})
