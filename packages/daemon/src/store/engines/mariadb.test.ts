import { expect, it } from 'vitest'
import { storeFixture } from '../engines.fixture.ts'

it('a transaction that MariaDB aborts because of a deadlock runs again', async () => {
  const db = await storeFixture('mariadb')
  const names = ['a', 'b']
  await db
    .insertInto('meta')
    .values(names.map(name => ({ name, value: '' })))
    .execute()
  const bothHaveOne = Promise.withResolvers<void>()
  let runs = 0
  const append = (first: string, second: string) =>
    db.transact(async trx => {
      const lock = (name: string) => trx.updateTable('meta').set({ value: second }).where('name', '=', name).execute()
      await lock(first)
      if (++runs === 2) bothHaveOne.resolve()
      await bothHaveOne.promise
      await lock(second)
    })
  await Promise.all([append('a', 'b'), append('b', 'a')])
  expect(runs).toBe(3)
  const rows = await db.selectFrom('meta').select('value').where('name', 'in', names).execute()
  expect(new Set(rows.map(({ value }) => value)).size).toBe(1)
})

it('a value that does not fit its column is refused and not cut off', async () => {
  const db = await storeFixture('mariadb')
  await expect(
    db
      .insertInto('meta')
      .values({ name: 'x'.repeat(65), value: '' })
      .execute(),
  ).rejects.toMatchObject({ code: 'ER_DATA_TOO_LONG' })
})
