// The rows of images and the names that lead to them.
import { SandglassError } from '@sandglass/contract'
import type { Store } from './open.ts'
import type { ImageBuildRow, ImageRow } from './tables.ts'

export type NamedImage = ImageRow & { references: string[] }
export type ImagePage = { limit: number; offset: number; cursor?: string | undefined }

/** Stores an image, in place of the same one if it is there, and makes these names lead to it. Names that led elsewhere move. */
export async function admitImage(db: Store, row: ImageRow, references: readonly string[]): Promise<void> {
  await db.transaction().execute(async trx => {
    await trx
      .insertInto('images')
      .values(row)
      .onConflict(conflict =>
        conflict.column('id').doUpdateSet({ layers: row.layers, size_bytes: row.size_bytes, last_used_at: row.last_used_at }),
      )
      .execute()
    for (const reference of references)
      await trx.replaceInto('image_references').values({ reference, image_id: row.id, resolved_at: row.last_used_at }).execute()
  })
}

export const findImage = (db: Store, id: string): Promise<ImageRow | undefined> =>
  db.selectFrom('images').selectAll().where('id', '=', id).executeTakeFirst()

export const findImageNamed = (db: Store, reference: string): Promise<ImageRow | undefined> =>
  db
    .selectFrom('image_references')
    .innerJoin('images', 'images.id', 'image_references.image_id')
    .selectAll('images')
    .where('image_references.reference', '=', reference)
    .executeTakeFirst()

/** Two at most: whether there is more than one is all that matters. `hex` is the beginning of an id. */
export const findImagesByPrefix = (db: Store, hex: string): Promise<ImageRow[]> =>
  db.selectFrom('images').selectAll().where('id', '>=', `sha256:${hex}`).where('id', '<', `sha256:${hex}g`).limit(2).execute()

export async function referencesOf(db: Store, id: string): Promise<string[]> {
  const rows = await db
    .selectFrom('image_references')
    .select('reference')
    .where('image_id', '=', id)
    .orderBy('reference')
    .execute()
  return rows.map(row => row.reference)
}

/** The names of all images. */
export async function allReferences(db: Store): Promise<string[]> {
  return (await db.selectFrom('image_references').select('reference').execute()).map(row => row.reference)
}

/** Newest first. */
export async function listImages(
  db: Store,
  page: ImagePage,
): Promise<{ rows: NamedImage[]; total: number; nextCursor: string | null }> {
  let query = db.selectFrom('images').selectAll().orderBy('created_at', 'desc').orderBy('id', 'desc')
  if (page.cursor !== undefined) {
    const { createdAt, id } = parseCursor(page.cursor)
    query = query.where(eb => eb(eb.refTuple('created_at', 'id'), '<', eb.tuple(createdAt, id)))
  }
  const found = await query
    .limit(page.limit + 1)
    .offset(page.offset)
    .execute()
  const { n } = await db
    .selectFrom('images')
    .select(eb => eb.fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow()
  const last = found.length > page.limit ? found[page.limit - 1] : undefined
  const rows = await Promise.all(
    found.slice(0, page.limit).map(async row => ({ ...row, references: await referencesOf(db, row.id) })),
  )
  return { rows, total: Number(n), nextCursor: last ? cursorOf(last) : null }
}

/** When a name was last found to lead where it leads. */
export async function referenceAge(db: Store, reference: string): Promise<number | undefined> {
  const row = await db.selectFrom('image_references').select('resolved_at').where('reference', '=', reference).executeTakeFirst()
  return row?.resolved_at
}

export const findBuild = (db: Store, key: string): Promise<ImageBuildRow | undefined> =>
  db.selectFrom('image_builds').selectAll().where('key', '=', key).executeTakeFirst()

export async function recordBuild(db: Store, row: ImageBuildRow): Promise<void> {
  await db.replaceInto('image_builds').values(row).execute()
}

/** Ids of built images that no name leads to, newest first. */
export async function namelessBuilds(db: Store, since: number, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('image_builds')
    .select('image_id')
    .where('built_at', '>', since)
    .where('image_id', 'not in', eb => eb.selectFrom('image_references').select('image_id'))
    .orderBy('built_at', 'desc')
    .limit(limit)
    .execute()
  return rows.map(row => row.image_id)
}

export const allImages = (db: Store): Promise<ImageRow[]> => db.selectFrom('images').selectAll().execute()

/** Images that no name leads to. */
export const namelessImages = (db: Store): Promise<ImageRow[]> =>
  db
    .selectFrom('images')
    .selectAll()
    .where('id', 'not in', eb => eb.selectFrom('image_references').select('image_id'))
    .execute()

/** Names of the sessions that have not ended and started from this image. */
export async function sessionsUsing(db: Store, id: string): Promise<string[]> {
  const rows = await db.selectFrom('sessions').select('name').where('image_id', '=', id).where('is_final', '=', 0).execute()
  return rows.map(row => row.name)
}

export async function touchImage(db: Store, id: string, now: number): Promise<void> {
  await db.updateTable('images').set({ last_used_at: now }).where('id', '=', id).execute()
}

export async function removeReferences(db: Store, references: readonly string[]): Promise<void> {
  await db.deleteFrom('image_references').where('reference', 'in', references).execute()
}

export async function deleteImage(db: Store, id: string): Promise<void> {
  await db.deleteFrom('images').where('id', '=', id).execute()
}

const cursorOf = (row: ImageRow) => Buffer.from(`${row.created_at}.${row.id}`).toString('base64url')

function parseCursor(cursor: string): { createdAt: number; id: string } {
  const [, createdAt, id] = /^(\d{1,15})\.(sha256:[0-9a-f]{64})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? []
  if (!createdAt || !id) throw new SandglassError('INVALID_REQUEST', { issue: 'cursor: is not one that a list gave' })
  return { createdAt: Number(createdAt), id }
}
