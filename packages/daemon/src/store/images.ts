// Images, the references that name them, and the cache of builds.
import type { Kysely } from 'kysely'
import { cutPage, dateCursor, olderThan, type Page } from './cursor.ts'
import type { Store } from './open.ts'
import { DEFAULT_TENANT, type ImageBuildRow, type ImageRow, type Tables } from './tables.ts'

export type NamedImage = ImageRow & { references: string[] }

const images = (db: Kysely<Tables>) => db.selectFrom('images').selectAll('images').where('images.tenant', '=', DEFAULT_TENANT)
const imageReferences = (db: Kysely<Tables>) =>
  db.selectFrom('image_references').where('image_references.tenant', '=', DEFAULT_TENANT)

/** Stores the image, or updates the stored one, and points the references to it. A reference to another image moves. */
export async function admitImage(db: Store, row: ImageRow, references: readonly string[]): Promise<void> {
  const { layers, size_bytes, last_used_at } = row
  await db.transact(async trx => {
    try {
      await trx
        .insertInto('images')
        .values({ ...row, tenant: DEFAULT_TENANT })
        .execute()
    } catch (error) {
      if (!db.engine.isUniqueViolation(error)) throw error
      await updateImage(trx, row.id, { layers, size_bytes, last_used_at })
    }
    for (const reference of references) {
      const named = { tenant: DEFAULT_TENANT, reference, image_id: row.id, resolved_at: last_used_at }
      await trx.replaceInto('image_references').values(named).execute()
    }
  })
}

async function updateImage(db: Kysely<Tables>, id: string, change: Partial<ImageRow>): Promise<void> {
  await db.updateTable('images').set(change).where('tenant', '=', DEFAULT_TENANT).where('id', '=', id).execute()
}

export const findImage = (db: Store, id: string): Promise<ImageRow | undefined> =>
  images(db).where('id', '=', id).executeTakeFirst()

export const findImageNamed = (db: Store, reference: string): Promise<ImageRow | undefined> =>
  images(db)
    .innerJoin('image_references', join =>
      join.onRef('image_references.tenant', '=', 'images.tenant').onRef('image_references.image_id', '=', 'images.id'),
    )
    .where('image_references.reference', '=', reference)
    .executeTakeFirst()

/** `hex` is a prefix of the digest. Finds two images at most, which is enough to see that the prefix is ambiguous. */
export const findImagesByPrefix = (db: Store, hex: string): Promise<ImageRow[]> =>
  images(db).where('id', '>=', `sha256:${hex}`).where('id', '<', `sha256:${hex}g`).limit(2).execute()

export async function referencesOf(db: Store, id: string): Promise<string[]> {
  const rows = await imageReferences(db).select('reference').where('image_id', '=', id).orderBy('reference').execute()
  return rows.map(row => row.reference)
}

export async function allReferences(db: Store): Promise<string[]> {
  return (await imageReferences(db).select('reference').execute()).map(row => row.reference)
}

/** Newest first. */
export async function listImages(
  db: Store,
  page: Page,
): Promise<{ rows: NamedImage[]; total: number; nextCursor: string | null }> {
  let query = images(db).where('source', '!=', 'step').orderBy('created_at', 'desc').orderBy('id', 'desc')
  if (page.cursor !== undefined) query = query.where(olderThan(page.cursor))
  const found = await query
    .limit(page.limit + 1)
    .offset(page.offset)
    .execute()
  const { n } = await db
    .selectFrom('images')
    .select(eb => eb.fn.countAll<number>().as('n'))
    .where('tenant', '=', DEFAULT_TENANT)
    .where('source', '!=', 'step')
    .executeTakeFirstOrThrow()
  const { rows, nextCursor } = cutPage(found, page.limit, dateCursor)
  const named = await Promise.all(rows.map(async row => ({ ...row, references: await referencesOf(db, row.id) })))
  return { rows: named, total: Number(n), nextCursor }
}

/** When the reference was last resolved. */
export async function referenceAge(db: Store, reference: string): Promise<number | undefined> {
  const row = await imageReferences(db).select('resolved_at').where('reference', '=', reference).executeTakeFirst()
  return row?.resolved_at
}

export const findBuild = (db: Store, key: string): Promise<ImageBuildRow | undefined> =>
  db.selectFrom('image_builds').selectAll().where('tenant', '=', DEFAULT_TENANT).where('key', '=', key).executeTakeFirst()

export async function recordBuild(db: Store, row: ImageBuildRow): Promise<void> {
  await db
    .replaceInto('image_builds')
    .values({ ...row, tenant: DEFAULT_TENANT })
    .execute()
}

/** Ids of built images or of steps without a reference, newest first. */
export async function namelessBuilds(db: Store, since: number, limit: number, source: 'build' | 'step'): Promise<string[]> {
  const rows = await db
    .selectFrom('image_builds')
    .select('image_id')
    .where('tenant', '=', DEFAULT_TENANT)
    .where('built_at', '>', since)
    .where('image_id', 'not in', imageReferences(db).select('image_id'))
    .where('image_id', 'in', images(db).clearSelect().select('id').where('source', '=', source))
    .orderBy('built_at', 'desc')
    .limit(limit)
    .execute()
  return rows.map(row => row.image_id)
}

/** The images of all tenants: their blobs are in one folder. */
export const allImages = (db: Store): Promise<ImageRow[]> => db.selectFrom('images').selectAll().execute()

/** Images without a reference. */
export const namelessImages = (db: Store): Promise<ImageRow[]> =>
  images(db).where('id', 'not in', imageReferences(db).select('image_id')).execute()

/** Names of the sessions that have not ended and were created from this image. */
export async function sessionsUsing(db: Store, id: string): Promise<string[]> {
  const rows = await db
    .selectFrom('sessions')
    .select('name')
    .where('tenant', '=', DEFAULT_TENANT)
    .where('image_id', '=', id)
    .where('is_final', '=', 0)
    .execute()
  return rows.map(row => row.name)
}

export const touchImage = (db: Store, id: string, now: number): Promise<void> => updateImage(db, id, { last_used_at: now })

export async function removeReferences(db: Store, references: readonly string[]): Promise<void> {
  await db.deleteFrom('image_references').where('tenant', '=', DEFAULT_TENANT).where('reference', 'in', references).execute()
}

export async function deleteImage(db: Store, id: string): Promise<void> {
  await db.deleteFrom('images').where('tenant', '=', DEFAULT_TENANT).where('id', '=', id).execute()
}
