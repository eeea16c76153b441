import { chmod, chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { loadSettings, readApiKey } from './settings.ts'

async function home(config?: string, mode = 0o600) {
  const folder = await mkdtemp(join(tmpdir(), 'settings-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'my.yaml')
  if (config !== undefined) {
    await writeFile(file, config)
    await chmod(file, mode)
  }
  return { HOME: folder, file }
}

test('without a configuration the socket of the daemon is in the home folder', async () => {
  const { HOME } = await home()
  expect(await loadSettings(undefined, { HOME })).toMatchObject({
    dataDir: join(HOME, '.sandglass/data'),
    address: { socketPath: join(HOME, '.sandglass/data/sandglass.sock') },
    hasListen: false,
  })
})

test('a variable takes precedence over the file, and the file over the default', async () => {
  const { HOME, file } = await home('data_dir: ~/elsewhere\nlisten: [unix:/run/a.sock]\napi_key: from-the-file-0000\n')
  expect(await loadSettings(file, { HOME })).toMatchObject({
    dataDir: join(HOME, 'elsewhere'),
    address: { socketPath: '/run/a.sock' },
    apiKey: 'from-the-file-0000',
  })
  expect(await loadSettings(file, { HOME, SANDGLASS_LISTEN: '0.0.0.0:9000', SANDGLASS_API_KEY: 'k' })).toMatchObject({
    address: { url: 'http://127.0.0.1:9000' },
    apiKey: 'k',
  })
  expect(await loadSettings(file, { HOME, SANDGLASS_URL: 'https://box.example' })).toMatchObject({
    address: { url: 'https://box.example' },
  })
})

test('a duplicate key is named', async () => {
  const { file, ...env } = await home('data_dir: /a\napi_key: secret-secret-00\ndata_dir: /b\n')
  await expect(loadSettings(file, env)).rejects.toThrow('has the key data_dir twice (line 3)')
})

test('a file that other users can read is refused, and its text is never quoted', async () => {
  const open = await home('api_key: secret-secret-00', 0o644)
  await expect(loadSettings(open.file, open)).rejects.toMatchObject({ code: 'CONFIG_INSECURE' })
  const broken = await home('api_key: "secret-secret-00')
  const failure = await loadSettings(broken.file, broken).catch(error => error)
  expect(failure.message).toContain('is not YAML')
  expect(failure.message).not.toContain('secret')
  await expect(loadSettings('/nowhere.yaml', {})).rejects.toThrow('does not exist')
})

// Only root can give a file away, and read one of another user with mode 0600.
test.runIf(process.getuid?.() === 0)('a file of another user is refused, but not the key of their daemon', async () => {
  const { HOME, file } = await home('api_key: secret-secret-00')
  const key = join(HOME, 'api-key')
  await writeFile(key, 'their-key\n', { mode: 0o600 })
  for (const path of [file, key]) await chown(path, 12345, 12345)
  await expect(loadSettings(file, { HOME })).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
    message: expect.stringContaining('belongs to user 12345, not to you'),
  })
  expect(readApiKey(HOME)).toBe('their-key')
})

test('a folder instead of the file is reported as a folder, whatever its mode', async () => {
  const { HOME } = await home()
  await expect(loadSettings(HOME, { HOME })).rejects.toThrow(`${HOME}: is a folder, not a file`)
})
