// Stored policies. The ready-made ones are in the contract, not here.
import type { Kysely } from 'kysely'
import type { Store } from './open.ts'
import { DEFAULT_TENANT, type PolicyRow, type Tables } from './tables.ts'

const policies = (db: Kysely<Tables>) => db.selectFrom('policies').where('tenant', '=', DEFAULT_TENANT)

export function putPolicy(db: Store, name: string, policy: string, now: number): Promise<PolicyRow> {
  return db.transact(async trx => {
    const found = await policies(trx).select('created_at').where('name', '=', name).executeTakeFirst()
    const row = { name, policy, created_at: found?.created_at ?? now, updated_at: now }
    await trx
      .replaceInto('policies')
      .values({ tenant: DEFAULT_TENANT, ...row })
      .execute()
    return row
  })
}

export const findPolicies = (db: Store, names: readonly string[]): Promise<PolicyRow[]> =>
  names.length === 0
    ? Promise.resolve([])
    : policies(db).select(['name', 'policy', 'created_at', 'updated_at']).where('name', 'in', names).execute()

/** All of them, by name. They are few: people write them. */
export const allPolicies = (db: Store): Promise<PolicyRow[]> =>
  policies(db).select(['name', 'policy', 'created_at', 'updated_at']).orderBy('name').execute()

export async function deletePolicy(db: Store, name: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('policies')
    .where('tenant', '=', DEFAULT_TENANT)
    .where('name', '=', name)
    .executeTakeFirst()
  return numDeletedRows > 0n
}

/** Sessions that have not ended and have policies, with the names of those. */
export async function sessionPolicies(db: Store): Promise<{ session: string; policies: string[] }[]> {
  const rows = await db
    .selectFrom('sessions')
    .select(['name', 'policies'])
    .where('is_final', '=', 0)
    .where('tenant', '=', DEFAULT_TENANT)
    .where('policies', '<>', '[]')
    .execute()
  return rows.map(row => ({ session: row.name, policies: JSON.parse(row.policies) as string[] }))
}
