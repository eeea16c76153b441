import { execFileSync } from 'node:child_process'
import { copyFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { LIMITS } from '@sandglass/contract'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { revealSecret } from '../secrets/stored.ts'
import { downgradeSessions } from '../store/schema/old-schema.fixture.ts'
import { daemonFixture, type TestDaemon, temporaryFolder } from '../testing/daemon.fixture.ts'
import { endDaemon, spawnDaemon } from '../testing/daemon-process.fixture.ts'

const VALUE = 'hush-4f1c9a-not-for-anyone'
const put = (daemon: TestDaemon, name: string, value: unknown = VALUE) => daemon.call('PUT', `/v1/secrets/${name}`, { value })
const names = async (daemon: TestDaemon, query = '') =>
  ((await daemon.call('GET', `/v1/secrets${query}`)).body as { items: { name: string }[] }).items.map(s => s.name)

/** Files below the folder that hold the text, as `grep` sees them. */
function holding(text: string, folder: string): string[] {
  try {
    return execFileSync('grep', ['-rlaF', text, folder], { encoding: 'utf8' }).trim().split('\n')
  } catch (error) {
    if ((error as { status?: number }).status === 1) return []
    throw error
  }
}

describe('a secret', () => {
  it('is stored, listed by name and removed, and no reply has its value', async () => {
    const daemon = await daemonFixture({ now: () => 1_800_000_000_000 })
    const at = '2027-01-15T08:00:00.000Z'
    const kept = await put(daemon, 'some.key')
    const unscoped = {
      kind: 'masked',
      env: null,
      scopes: [],
      headers: [],
      query: false,
      body: false,
      allow_foreign_credentials: false,
    }
    expect([kept.status, kept.body]).toEqual([200, { name: 'some.key', ...unscoped, created_at: at, updated_at: at }])
    await put(daemon, 'OTHER_KEY')
    const listed = await daemon.call('GET', '/v1/secrets')
    expect(listed.body).toMatchObject({ total: 2, limit: 50, offset: 0, next_cursor: null })
    expect(await names(daemon)).toEqual(['OTHER_KEY', 'some.key'])
    expect(kept.text + listed.text).not.toContain(VALUE)
    expect(await revealSecret(daemon.context, 'some.key')).toBe(VALUE)
    expect((await daemon.call('DELETE', '/v1/secrets/some.key')).body).toEqual({ ok: true })
    expect((await daemon.call('DELETE', '/v1/secrets/some.key')).body).toMatchObject({ error: { code: 'SECRET_NOT_FOUND' } })
    expect(await revealSecret(daemon.context, 'some.key')).toBeUndefined()
    expect((await daemon.call('GET', '/v1/secrets/OTHER_KEY')).status).toBe(404)
  })

  it('that is stored again has the new value and keeps its creation time', async () => {
    let now = 1000
    const daemon = await daemonFixture({ now: () => now })
    await put(daemon, 'a', 'old')
    now = 61_000
    expect((await put(daemon, 'a', 'new')).body).toMatchObject({
      created_at: '1970-01-01T00:00:01.000Z',
      updated_at: '1970-01-01T00:01:01.000Z',
    })
    expect(await revealSecret(daemon.context, 'a')).toBe('new')
  })

  it('has settings, those of a preset where none are given, which stay when the value is rotated', async () => {
    const daemon = await daemonFixture()
    const spec = { value: VALUE, preset: 'github', scopes: ['GHE.example.com/api/*'] }
    const stored = await daemon.call('PUT', '/v1/secrets/gh', spec)
    const settings = { kind: 'masked', env: 'GITHUB_TOKEN', scopes: ['ghe.example.com/api/*'], headers: ['authorization'] }
    expect(stored.body).toMatchObject(settings)
    const rotated = await daemon.call('POST', '/v1/secrets/gh/rotate', { value: 'another-token-1' })
    expect(rotated.body).toMatchObject(settings)
    expect(await revealSecret(daemon.context, 'gh')).toBe('another-token-1')
    expect(stored.text + rotated.text + (await daemon.call('GET', '/v1/secrets')).text).not.toMatch(`${VALUE}|another-token-1`)
    expect((await daemon.call('POST', '/v1/secrets/none/rotate', { value: 'x' })).body).toMatchObject({
      error: { code: 'SECRET_NOT_FOUND' },
    })
    await put(daemon, 'gh')
    expect((await daemon.call('GET', '/v1/secrets')).body).toMatchObject({ items: [{ name: 'gh', scopes: [] }] })
  })

  it('of kind aws has to be a JSON object, also when it is rotated, and no error quotes it', async () => {
    const daemon = await daemonFixture()
    const keys = JSON.stringify({ access_key_id: 'AKIA0123456789ABCDEF', secret_access_key: VALUE })
    for (const value of [VALUE, `{"secret_access_key":"${VALUE}"}`]) {
      const refused = await daemon.call('PUT', '/v1/secrets/aws', { value, preset: 'aws' })
      expect(refused).toMatchObject({ status: 400, body: { error: { code: 'INVALID_REQUEST' } } })
      expect(refused.text + JSON.stringify(daemon.logged)).not.toContain(VALUE)
    }
    expect((await daemon.call('PUT', '/v1/secrets/aws', { value: keys, preset: 'aws' })).body).toMatchObject({ kind: 'aws' })
    const refused = await daemon.call('POST', '/v1/secrets/aws/rotate', { value: VALUE })
    expect([refused.status, refused.text.includes(VALUE)]).toEqual([400, false])
    expect(await revealSecret(daemon.context, 'aws')).toBe(keys)
  })

  it('is found by paging through the list', async () => {
    const daemon = await daemonFixture()
    for (const name of ['c', 'a', 'b']) await put(daemon, name)
    const first = (await daemon.call('GET', '/v1/secrets?limit=2')).body as { total: number; next_cursor: string }
    expect(first.total).toBe(3)
    expect(await names(daemon, `?limit=2&cursor=${first.next_cursor}`)).toEqual(['c'])
    expect(await names(daemon, '?limit=1&offset=1')).toEqual(['b'])
  })

  it('can be any text up to its limit', async () => {
    const daemon = await daemonFixture()
    const long = 'é\n'.repeat(LIMITS.secret_value_bytes.max / 3)
    expect((await put(daemon, `a${'x'.repeat(LIMITS.secret_name.max - 1)}`, long)).status).toBe(200)
    expect((await put(daemon, 'a', `${long}!!!`)).status).toBe(400)
    expect((await put(daemon, `a${'x'.repeat(LIMITS.secret_name.max)}`)).status).not.toBe(200)
  })

  it('needs the key', async () => {
    const daemon = await daemonFixture()
    for (const [method, path] of [
      ['GET', '/v1/secrets'],
      ['PUT', '/v1/secrets/a'],
      ['DELETE', '/v1/secrets/a'],
    ] as const)
      expect((await daemon.call(method, path, undefined, { authorization: 'Bearer no' })).status).toBe(401)
  })

  it.each([
    ['an empty value', 'a', { value: '' }],
    ['a value that is no text', 'a', { value: [VALUE] }],
    ['a value with NUL', 'a', { value: `${VALUE}\0` }],
    ['half a character', 'a', { value: `${VALUE}\ud800` }],
    ['too long a value', 'a', { value: VALUE.repeat(LIMITS.secret_value_bytes.max / VALUE.length + 1) }],
    ['a field that is too much', 'a', { value: VALUE, [VALUE]: VALUE }],
    ['no object', 'a', JSON.stringify(VALUE)],
    ['broken JSON', 'a', `{"value": "${VALUE}`],
    ['a name that is none', `1${VALUE}`, { value: VALUE }],
    ['a name with a slash', encodeURIComponent(`a/${VALUE}`), { value: VALUE }],
  ])('with %s is refused, and neither reply nor log quotes it', async (_what, name, body) => {
    const daemon = await daemonFixture()
    const reply = await daemon.call('PUT', `/v1/secrets/${name}`, body)
    expect(reply).toMatchObject({ status: 400, body: { error: { code: 'INVALID_REQUEST' } } })
    expect(reply.text + JSON.stringify(daemon.logged)).not.toContain(VALUE)
    expect(await names(daemon)).toEqual([])
  })

  it('is in no log line, whatever is done with it', async () => {
    const daemon = await daemonFixture()
    await put(daemon, 'a')
    await put(daemon, 'a')
    await revealSecret(daemon.context, 'a')
    await daemon.context.store.schema.dropTable('secrets').execute()
    expect((await put(daemon, 'a')).status).toBe(500)
    await daemon.call('DELETE', '/v1/secrets/a')
    expect(daemon.logged.map(line => line.msg)).toContain('request failed unexpectedly')
    expect(JSON.stringify(daemon.logged)).not.toContain(VALUE)
  })
})

describe('a row of a secret', () => {
  const spoil = async (sql: string) => {
    const daemon = await daemonFixture()
    await put(daemon, 'mine', VALUE)
    await put(daemon, 'other', 'the other one')
    new Database(join(daemon.dataDir, 'sandglass.db')).exec(sql).close()
    return daemon
  }

  it('that was copied to another row cannot be decrypted', async () => {
    const daemon =
      await spoil(`update secrets set (ciphertext, nonce) = (select ciphertext, nonce from secrets where name = 'mine')
      where name = 'other'`)
    await expect(revealSecret(daemon.context, 'other')).rejects.toMatchObject({ code: 'SECRET_UNREADABLE' })
    expect(await revealSecret(daemon.context, 'mine')).toBe(VALUE)
  })

  it('that was renamed in the database cannot be decrypted', async () => {
    const daemon = await spoil(`delete from secrets where name = 'other'; update secrets set name = 'other'`)
    await expect(revealSecret(daemon.context, 'other')).rejects.toMatchObject({ code: 'SECRET_UNREADABLE' })
  })

  it('that was changed in the database fails with that reason, and can be set again', async () => {
    const daemon = await spoil(`update secrets set ciphertext = zeroblob(length(ciphertext)) where name = 'mine'`)
    await expect(revealSecret(daemon.context, 'mine')).rejects.toMatchObject({
      message: 'the secret mine cannot be decrypted: the stored value was changed or encrypted with another key',
      hint: expect.stringContaining('sandglass secret set'),
    })
    await put(daemon, 'mine', 'again')
    expect(await revealSecret(daemon.context, 'mine')).toBe('again')
  })
})

describe('the key of an agent', () => {
  it('in the configuration becomes the secret of the agent, wins over the one that is there, and is written once', async () => {
    const dataDir = await temporaryFolder()
    const before = await daemonFixture({ dataDir })
    await put(before, 'agent.codex', 'an older value')
    await before.close()
    const flags = { 'agent-api-keys-codex': ['from-the-file'] }
    const daemon = await daemonFixture({ dataDir, flags })
    expect(await revealSecret(daemon.context, 'agent.codex')).toBe('from-the-file')
    const { body: listed } = await daemon.call('GET', '/v1/secrets')
    expect(listed).toMatchObject({ items: [{ name: 'agent.codex', env: 'OPENAI_API_KEY', scopes: ['api.openai.com'] }] })
    expect(JSON.stringify(daemon.logged)).not.toContain('from-the-file')
    await daemon.close()
    const again = await daemonFixture({ dataDir, flags })
    expect((await again.call('GET', '/v1/secrets')).body).toEqual(listed)
  })

  it('needs no settings: its name tells where it may go', async () => {
    const daemon = await daemonFixture()
    await daemon.call('PUT', '/v1/secrets/agent.claude.subscription', { value: 'sk-ant-oat01-abcdefgh' })
    expect((await daemon.call('GET', '/v1/secrets')).body).toMatchObject({
      items: [{ env: 'CLAUDE_CODE_OAUTH_TOKEN', scopes: ['api.anthropic.com'], headers: ['authorization'] }],
    })
  })
})

describe('on disk', () => {
  it('neither a secret nor an environment is there in plain bytes, while the daemon runs and after', async () => {
    const daemon = await daemonFixture()
    await put(daemon, 'a')
    await daemon.create({ name: 'with-env', env: { TOKEN: VALUE } })
    await daemon.call('POST', '/v1/sessions', { name: 'kept', env: { TOKEN: VALUE } }, { 'idempotency-key': 'once' })
    await daemon.call('GET', '/v1/sessions/kept?reveal_env=true')
    expect(holding('with-env', daemon.dataDir)).not.toEqual([])
    expect(holding(VALUE, daemon.dataDir)).toEqual([])
    await daemon.close()
    expect(holding(VALUE, daemon.dataDir)).toEqual([])
  })

  it('the stored hash of a request with an Idempotency-Key differs per daemon, so its environment cannot be guessed from it', async () => {
    const body = { name: 'guess', env: { PIN: '1234' } }
    const hashes = []
    for (const _ of [1, 2]) {
      const daemon = await daemonFixture()
      await daemon.call('POST', '/v1/sessions', body, { 'idempotency-key': 'once' })
      hashes.push(
        (await daemon.context.store.selectFrom('idempotency').select('request_hash').executeTakeFirstOrThrow()).request_hash,
      )
    }
    expect(hashes[0]).not.toBe(hashes[1])
  })
})

describe('an environment', () => {
  it('is shown by its names; its values are shown on request', async () => {
    const daemon = await daemonFixture()
    const made = await daemon.call('POST', '/v1/sessions', { name: 'box', env: { TOKEN: VALUE, A_B: '1' } })
    const shown = await daemon.call('GET', '/v1/sessions/box')
    const listed = await daemon.call('GET', '/v1/sessions?reveal_env=true')
    expect(shown.body).toMatchObject({ env_names: ['TOKEN', 'A_B'] })
    expect(listed.status).toBe(400)
    const replies = [made, shown, await daemon.call('GET', '/v1/sessions'), await daemon.call('POST', '/v1/sessions/box/stop')]
    expect(replies.map(r => r.text).join()).not.toContain(VALUE)
    expect((await daemon.call('GET', '/v1/sessions/box?reveal_env=true')).body).toMatchObject({ env: { TOKEN: VALUE, A_B: '1' } })
    expect(daemon.logged).toContainEqual(expect.objectContaining({ msg: 'environment shown' }))
    expect(JSON.stringify(daemon.logged)).not.toContain(VALUE)
  })

  it('that is invalid is refused, and the error does not quote it', async () => {
    const daemon = await daemonFixture()
    for (const env of [{ A: `${VALUE}\0` }, { A: [VALUE] }, { A: VALUE.repeat(1000) }, VALUE]) {
      const reply = await daemon.call('POST', '/v1/sessions', { env })
      expect(reply.status).toBe(400)
      expect(reply.text + JSON.stringify(daemon.logged)).not.toContain(VALUE)
    }
  })

  it('whose row was changed fails the start with that reason and no detail', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create({ name: 'box', env: { TOKEN: VALUE }, start: false })
    await daemon.context.store
      .updateTable('sessions')
      .set({ env_sealed: Buffer.alloc(60) })
      .execute()
    for (const reply of [
      await daemon.call('GET', '/v1/sessions/box?reveal_env=true'),
      await daemon.call('POST', '/v1/sessions/box/start'),
    ])
      expect(reply).toMatchObject({ status: 500, text: expect.stringContaining(`the environment of ${id} cannot be decrypted`) })
  })
})

describe('after a restart', () => {
  const folders = async () => {
    const folder = await temporaryFolder()
    const [dataDir, machines] = [join(folder, 'data'), join(folder, 'm')]
    await mkdir(machines)
    return { dataDir, machines }
  }

  it('secrets are there, and a stopped session starts with its environment', async () => {
    const { dataDir, machines } = await folders()
    const first = await spawnDaemon(dataDir, machines)
    await first.call('PUT', '/v1/secrets/a', { value: VALUE })
    await first.call('POST', '/v1/sessions', { name: 'box', env: { TOKEN: VALUE } })
    await first.call('POST', '/v1/sessions/box/stop')
    await endDaemon(first, 'SIGKILL')
    const second = await spawnDaemon(dataDir, machines)
    expect((await second.call('GET', '/v1/secrets')).body).toMatchObject({ total: 1 })
    expect((await second.call('POST', '/v1/sessions/box/start')).body).toMatchObject({ status: 'running' })
    expect((await second.call('POST', '/v1/sessions/box/exec', { cmd: 'echo $TOKEN' })).body).toMatchObject({
      output: `${VALUE}\n`,
    })
    await second.call('DELETE', '/v1/sessions/box')
    await endDaemon(second, 'SIGTERM')
    expect(first.log() + second.log()).not.toContain(VALUE)
  })

  it('the folder of a version without secrets is taken over, with its environments', async () => {
    const { dataDir, machines } = await folders()
    const first = await spawnDaemon(dataDir, machines)
    await first.call('POST', '/v1/sessions', { name: 'box', env: { TOKEN: VALUE }, start: false })
    await endDaemon(first, 'SIGTERM')
    downgradeSessions(join(dataDir, 'sandglass.db'), 2)
    const second = await spawnDaemon(dataDir, machines)
    expect((await second.call('PUT', '/v1/secrets/a', { value: VALUE })).status).toBe(200)
    expect((await second.call('GET', '/v1/sessions/box?reveal_env=true')).body).toMatchObject({ env: { TOKEN: VALUE } })
    await endDaemon(second, 'SIGTERM')
  })

  it('a daemon killed before its first secret starts again, and one whose key file is missing refuses to start', async () => {
    const { dataDir, machines } = await folders()
    const first = await spawnDaemon(dataDir, machines)
    await endDaemon(first, 'SIGKILL')
    const second = await spawnDaemon(dataDir, machines)
    await second.call('PUT', '/v1/secrets/a', { value: VALUE })
    await endDaemon(second, 'SIGKILL')
    copyFileSync(join(dataDir, 'secret.key'), join(machines, '..', 'backup'))
    execFileSync('rm', [join(dataDir, 'secret.key')])
    await expect(spawnDaemon(dataDir, machines)).rejects.toThrow('SECRET_KEY_LOST')
    copyFileSync(join(machines, '..', 'backup'), join(dataDir, 'secret.key'))
    const third = await spawnDaemon(dataDir, machines)
    expect((await third.call('GET', '/v1/secrets')).body).toMatchObject({ total: 1 })
    await endDaemon(third, 'SIGTERM')
  })
})
