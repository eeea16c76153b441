// Contexts: conversations with an agent, by the digest of the caller's id.
import { cutPage, type Page, usedBefore, usedCursor } from './cursor.ts'
import type { Store } from './open.ts'
import { type ContextRow, DEFAULT_TENANT } from './tables.ts'

const contexts = (db: Store) => db.selectFrom('contexts').where('tenant', '=', DEFAULT_TENANT)

/** Inserts the row, or returns the one that exists. */
export async function ensureContext(db: Store, row: ContextRow): Promise<ContextRow> {
  try {
    await db
      .insertInto('contexts')
      .values({ ...row, tenant: DEFAULT_TENANT })
      .execute()
    return row
  } catch (error) {
    if (!db.engine.isUniqueViolation(error)) throw error
    const found = await findContext(db, row.folder)
    if (found === undefined) throw error
    return found
  }
}

export const findContext = (db: Store, folder: string): Promise<ContextRow | undefined> =>
  contexts(db).selectAll().where('folder', '=', folder).executeTakeFirst()

export async function patchContext(db: Store, folder: string, patch: Partial<ContextRow>): Promise<void> {
  await db.updateTable('contexts').set(patch).where('folder', '=', folder).execute()
}

/** Deletes the context with its tasks. */
export async function deleteContext(db: Store, folder: string): Promise<void> {
  await db.transact(async trx => {
    await trx.deleteFrom('tasks').where('context_folder', '=', folder).execute()
    await trx.deleteFrom('contexts').where('folder', '=', folder).execute()
  })
}

/** Last used first. */
export async function listContexts(
  db: Store,
  page: Page,
): Promise<{ rows: ContextRow[]; total: number; nextCursor: string | null }> {
  let query = contexts(db).selectAll().orderBy('updated_at', 'desc').orderBy('folder', 'desc')
  if (page.cursor !== undefined) query = query.where(usedBefore(page.cursor))
  const rows = await query
    .limit(page.limit + 1)
    .offset(page.offset)
    .execute()
  const { n } = await contexts(db)
    .select(eb => eb.fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow()
  return { ...cutPage(rows, page.limit, usedCursor), total: Number(n) }
}
