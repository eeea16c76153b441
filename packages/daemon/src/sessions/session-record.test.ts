import { expect, it } from 'vitest'
import { daemonFixture } from '../testing/daemon.fixture.ts'
import { findRecord, fromRow, patchRecord, type SessionRecord, toRow } from './session-record.ts'

async function stored() {
  const { context, create } = await daemonFixture()
  const { id } = await create({ name: 'demo', start: false, labels: { team: 'a' }, env: { TOKEN: 'x' }, readonly_rootfs: true })
  const row = await context.store.selectFrom('sessions').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  return { context, id, row, record: (await findRecord(context.store, 'demo')) as SessionRecord }
}

it('a record has the values of its row, parsed', async () => {
  const { row, record } = await stored()
  expect(row).toMatchObject({ labels: '{"team":"a"}', env_names: '["TOKEN"]', readonly_rootfs: 1, mounts: '[]', limit_hit: null })
  expect(record).toMatchObject({
    labels: { team: 'a' },
    env_names: ['TOKEN'],
    readonly_rootfs: true,
    mounts: [],
    limit_hit: null,
  })
  expect(record).not.toHaveProperty('live_name')
})

it('a record that becomes a row and a record again is the same', async () => {
  const { row, record } = await stored()
  expect(toRow(record)).toEqual(row)
  expect(fromRow(toRow(record))).toEqual(record)
  expect(toRow({ ...record, status: 'terminated' })).toMatchObject({ is_final: 1, live_name: null })
})

it('a patch writes the given values and nothing else', async () => {
  const { context, id, record } = await stored()
  const resizing = { cpu_cores: 2, memory_mb: 1024, pids_limit: 64 }
  await patchRecord(context.store, id, { resizing, nested_virt: true, error_message: 'why' })
  expect(await findRecord(context.store, id)).toEqual({ ...record, resizing, nested_virt: true, error_message: 'why' })
})
