import { CompiledQuery, type Dialect, sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { approvalsAfter, findApproval, listApprovals, pendingApprovals } from './approvals.ts'
import { dateCursor } from './cursor.ts'
import { ENGINES, sessionRow, storeFixture } from './engines.fixture.ts'
import { eventsAfter } from './events.ts'
import { findIdempotency } from './idempotency.ts'
import { findImageNamed, listImages, sessionsUsing } from './images.ts'
import { listSessions } from './list.ts'
import { Store } from './open.ts'
import { sessionPolicies } from './policies.ts'
import { listSecrets } from './secrets.ts'
import { dueSessions, findSession, insertSession, nextExpiry, retiredSessions, unendedSessions } from './sessions.ts'

const PAGE = { limit: 9, offset: 0 }
const CURSOR = dateCursor({ created_at: 1500, id: 'sess_x' })

const HOT_QUERIES: Record<string, (db: Store) => Promise<unknown>> = {
  'list of sessions that have not ended': db => listSessions(db, { all: false }, PAGE),
  'list of all sessions': db => listSessions(db, { all: true }, PAGE),
  'list of sessions in a state': db => listSessions(db, { all: false, status: 'running' }, PAGE),
  'next page of a list': db => listSessions(db, { all: true }, { ...PAGE, cursor: CURSOR }),
  'sessions that are due': db => dueSessions(db, 1, 9),
  'next expiry': nextExpiry,
  'sessions whose retention is over': db => retiredSessions(db, 1, 9),
  'sessions for recovery': unendedSessions,
  'session by id': db => findSession(db, { id: 'sess_x' }),
  'session by name': db => findSession(db, { name: 'x' }),
  'events of all sessions': db => eventsAfter(db, 100, { resource_kind: 'session' }, 9),
  'events of a session': db => eventsAfter(db, 100, { resource_kind: 'session', resource_id: 'sess_x' }, 9),
  'idempotency key': db => findIdempotency(db, 'k', 'r', 1),
  'image by name': db => findImageNamed(db, 'a:1'),
  'list of images': db => listImages(db, PAGE),
  'list of secrets': db => listSecrets(db, PAGE),
  'approval by id': db => findApproval(db, 'appr_x'),
  'approvals that wait': pendingApprovals,
  'list of approvals': db => listApprovals(db, {}, PAGE),
  'next page of approvals': db => listApprovals(db, {}, { ...PAGE, cursor: CURSOR }),
  'list of approvals in a state': db => listApprovals(db, { status: 'pending' }, PAGE),
  'list of approvals of a session': db => listApprovals(db, { sessionId: 'sess_x' }, PAGE),
  'approvals that have changed': db => approvalsAfter(db, 1, 9),
  'sessions with policies': sessionPolicies,
  'sessions of an image': db => sessionsUsing(db, 'sha256:1'),
}

describe.each(ENGINES)('on %s', engine => {
  it('an index answers the hot queries, without a sort, however long the history', async () => {
    const db = await storeFixture(engine)
    await addHistory(db)
    for (const [what, run] of Object.entries(HOT_QUERIES)) {
      for (const query of await queriesOf(db, run)) {
        const { problems, plan } = engine === 'sqlite' ? await sqlitePlan(db, query) : await mariadbPlan(db, query)
        expect(problems, `${what}: ${query.sql}\n${JSON.stringify(plan)}`).toEqual([])
      }
    }
  })

  it('dueSessions returns expired sessions, and nextExpiry the time of the next one', async () => {
    const db = await storeFixture(engine)
    await insertSession(db, sessionRow({ expires_at: 5 }), null)
    await insertSession(db, sessionRow({ expires_at: null }), null)
    expect([await nextExpiry(db), (await dueSessions(db, 4, 9)).length, (await dueSessions(db, 5, 9)).length]).toEqual([5, 0, 1])
  })
})

/** A history that is long enough for an optimizer to prefer an index: of 210 sessions 10 have not ended. */
async function addHistory(db: Store): Promise<void> {
  const ended = { status: 'terminated', is_final: 1, delete_at: 900_000 } as const
  for (let i = 0; i < 210; i++) {
    const state = i % 21 === 0 ? { expires_at: 900_000 + i } : ended
    await insertSession(db, sessionRow({ created_at: 1000 + i, ...state }), null)
  }
  if (db.engine.tableOptions !== '') await sql`analyze table sessions, events`.execute(db)
}

/** The statements that `run` sends. */
async function queriesOf(db: Store, run: (db: Store) => Promise<unknown>): Promise<CompiledQuery[]> {
  const queries: CompiledQuery[] = []
  const { dialect } = db.engine
  const recording: Dialect = {
    createAdapter: () => dialect.createAdapter(),
    createDriver: () => dialect.createDriver(),
    createIntrospector: of => dialect.createIntrospector(of),
    createQueryCompiler: () => {
      const compiler = dialect.createQueryCompiler()
      return {
        compileQuery: (node, id) => {
          const query = compiler.compileQuery(node, id) as CompiledQuery
          queries.push(query)
          return query as never
        },
      }
    },
  }
  await run(new Store({ ...db.engine, dialect: recording }))
  return queries
}

type Plan = { problems: unknown[]; plan: unknown }

async function sqlitePlan(db: Store, { sql: text, parameters }: CompiledQuery): Promise<Plan> {
  const { rows } = await db.executeQuery<{ detail: string }>(CompiledQuery.raw(`explain query plan ${text}`, [...parameters]))
  const problems = rows.filter(({ detail }) => /^SCAN \S+$|TEMP B-TREE/.test(detail))
  return { problems, plan: rows }
}

async function mariadbPlan(db: Store, { sql: text, parameters }: CompiledQuery): Promise<Plan> {
  type Row = { type: string | null; Extra: string }
  const { rows } = await db.executeQuery<Row>(CompiledQuery.raw(`explain ${text}`, [...parameters]))
  return { problems: rows.filter(({ type, Extra }) => type === 'ALL' || Extra.includes('filesort')), plan: rows }
}
