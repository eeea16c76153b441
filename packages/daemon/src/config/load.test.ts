import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SandglassError } from '@sandglass/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { CONFIG_KEYS } from './keys.ts'
import { loadConfig, type Sources } from './load.ts'
import { printedConfig } from './print.ts'

let home: string
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'sandglass-config-'))
})
afterEach(() => rmSync(home, { recursive: true }))

const userId = process.getuid?.() ?? 0
const load = (sources: Partial<Sources> = {}) => loadConfig({ flags: {}, env: {}, home, userId, ...sources })
function file(text: string, mode = 0o600): string {
  const path = join(home, 'config.yaml')
  writeFileSync(path, text)
  chmodSync(path, mode)
  return path
}
const failure = (act: () => unknown): SandglassError => {
  try {
    act()
  } catch (error) {
    if (error instanceof SandglassError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

describe('configuration', () => {
  it('has a default for every key, with the origin default', () => {
    const { config, dataDir, storePath, origins } = load()
    expect(config.session_ttl_seconds).toBe(1800)
    expect(config.defaults.memory_mb).toBe(512)
    expect(dataDir).toBe(join(home, '.sandglass/data'))
    expect(storePath).toBe(join(dataDir, 'sandglass.db'))
    expect([...origins.values()].every(o => o === 'default')).toBe(true)
  })

  it('takes a flag before a variable, a variable before the file, the file before the default', () => {
    const SANDGLASS_CONFIG = file('session_ttl_seconds: 10\ndefaults: { memory_mb: 300, pids_limit: 65 }\n')
    const env = { SANDGLASS_CONFIG, SANDGLASS_SESSION_TTL_SECONDS: '20', SANDGLASS_DEFAULTS_MEMORY_MB: '400' }
    const { config, origins } = load({ env, flags: { 'session-ttl-seconds': ['30'] } })
    expect([config.session_ttl_seconds, config.defaults.memory_mb, config.defaults.pids_limit, config.defaults.disk_mb]).toEqual([
      30, 400, 65, 1024,
    ])
    expect(
      ['session_ttl_seconds', 'defaults.memory_mb', 'defaults.pids_limit', 'defaults.disk_mb'].map(k => origins.get(k)),
    ).toEqual(['flag', 'environment', 'file', 'default'])
  })

  it('names a duplicate key in the file, and its line', () => {
    const twice = file('listen: [unix]\nbackends: { oci: { allow_unenforced: [cpu] } }\nbackends: { oci: { runtime: runc } }\n')
    expect(() => load({ env: { SANDGLASS_CONFIG: twice } })).toThrow(/has the key backends twice \(line 3\)/)
  })

  it('cannot be changed after it was read', () => {
    const { config } = load()
    expect(() => Object.assign(config.defaults, { memory_mb: 1 })).toThrow(TypeError)
  })

  it('knows a flag and a variable for every key', () => {
    expect(CONFIG_KEYS.map(k => k.variable)).toContain('SANDGLASS_BACKENDS_OCI_ALLOW_UNENFORCED')
    expect(CONFIG_KEYS.map(k => k.flag)).toContain('agent-api-keys-claude')
  })

  it('reads lists and booleans from text', () => {
    const { config } = load({
      env: { SANDGLASS_ALLOWED_IMAGES: '', SANDGLASS_DEFAULTS_READONLY_ROOTFS: 'false' },
      flags: { listen: ['unix', '127.0.0.1:0,127.0.0.1:1'] },
    })
    expect(config.allowed_images).toEqual([])
    expect(config.defaults.readonly_rootfs).toBe(false)
    expect(config.listen).toEqual(['unix', '127.0.0.1:0', '127.0.0.1:1'])
  })

  it('reads sizes with a unit, from a flag, a variable and the file', () => {
    const path = file('defaults: { disk_mb: 3GiB }\n')
    const env = { SANDGLASS_CONFIG: path, SANDGLASS_DEFAULTS_MEMORY_MB: '1GB' }
    const { config } = load({ env })
    expect([config.defaults.memory_mb, config.defaults.disk_mb]).toEqual([1024, 3072])
    expect(load({ env, flags: { 'defaults-memory-mb': ['2GB'] } }).config.defaults.memory_mb).toBe(2048)
    expect(failure(() => load({ env: { SANDGLASS_DEFAULTS_DISK_MB: 'much' } })).message).toContain('like 512 or 2GB')
  })

  it('accepts the other names of a key', () => {
    const path = file('db_path: /tmp/x.db\ndefaults: { cpu_limit: 2, mem_limit_mb: 700, network_mode: bridge }\n')
    const { config, storePath } = load({ flags: { config: [path] } })
    const { cpu_cores, memory_mb, network } = config.defaults
    expect([cpu_cores, memory_mb, network, storePath]).toEqual([2, 700, 'bridge', '/tmp/x.db'])
  })

  it('accepts defaults.memory for memory_mb and defaults.vcpus for cpu_cores', () => {
    const { config, origins } = load({ flags: { config: [file('defaults: { memory: 2GB, vcpus: 3 }\n')] } })
    expect([config.defaults.memory_mb, config.defaults.cpu_cores]).toEqual([2048, 3])
    expect([origins.get('defaults.memory_mb'), origins.get('defaults.cpu_cores')]).toEqual(['file', 'file'])
  })

  it('refuses two names of a key with different values, and takes equal ones', () => {
    const same = file('defaults: { memory: 1GB, memory_mb: 1024, vcpus: 2, cpu_limit: 2 }\n')
    expect(load({ flags: { config: [same] } }).config.defaults).toMatchObject({ memory_mb: 1024, cpu_cores: 2 })
    const different = file('defaults: { memory_mb: 1024, memory: 512 }\n')
    const error = failure(() => load({ flags: { config: [different] } }))
    expect([error.code, error.message]).toEqual([
      'CONFIG_INVALID',
      `${different}: defaults.memory and another name of defaults.memory_mb have different values: keep one`,
    ])
  })

  it.each([0o644, 0o640, 0o604])('refuses a file that other users can read (mode %o)', mode => {
    const error = failure(() => load({ flags: { config: [file('listen: [unix]\n', mode)] } }))
    expect(error.code).toBe('CONFIG_INSECURE')
  })

  it('refuses a file of another user', () => {
    const error = failure(() => load({ flags: { config: [file('{}')] }, userId: userId + 1 }))
    expect(error.message).toContain('not to you')
  })

  it('refuses an unknown key and names the nearest known one', () => {
    expect(failure(() => load({ flags: { config: [file('defaults: { memry_mb: 2 }')] } })).message).toContain(
      'unknown key defaults.memry_mb; did you mean defaults.memory_mb?',
    )
    expect(failure(() => load({ flags: { config: [file('listn: [unix]')] } })).message).toContain('did you mean listen?')
    expect(failure(() => load({ flags: { config: [file('bakends: {}')] } })).message).toContain('did you mean backends?')
    expect(failure(() => load({ flags: { config: [file('backends: { ocl: {} }')] } })).message).toContain(
      'did you mean backends.oci?',
    )
    expect(failure(() => load({ env: { SANDGLASS_SESSION_TTL: '3' } })).message).toContain(
      'did you mean SANDGLASS_SESSION_TTL_SECONDS?',
    )
    expect(failure(() => load({ flags: { 'data-dr': ['x'] } })).message).toContain('did you mean --data-dir?')
  })

  it('refuses a value out of range, and names its source', () => {
    expect(failure(() => load({ env: { SANDGLASS_SESSION_TTL_SECONDS: '0' } })).message).toMatch(
      /^SANDGLASS_SESSION_TTL_SECONDS: session_ttl_seconds: /,
    )
    expect(failure(() => load({ env: { SANDGLASS_SESSION_TTL_SECONDS: 'soon' } })).message).toContain('must be a number')
    expect(failure(() => load({ flags: { config: ['/nonexistent/c.yaml'] } })).message).toContain('does not exist')
  })

  it('never shows a secret, neither when printed nor when the file is broken', () => {
    const loaded = load({
      env: { SANDGLASS_API_KEY: 'sk-very-secret-key-1', SANDGLASS_AGENT_API_KEYS_CLAUDE: 'sk-other-secret' },
    })
    const printed = printedConfig(loaded)
    expect(printed.api_key).toEqual({ value: '***', origin: 'environment' })
    expect(JSON.stringify(printed)).not.toContain('secret')
    const registries = load({ flags: { config: [file('registries: { r.local: { username: me, password: very-secret } }')] } })
    expect(printedConfig(registries).registries?.value).toEqual({ 'r.local': { username: 'me', password: '***' } })
    const broken = failure(() => load({ flags: { config: [file('api_key: "sk-very-secret\n  x: [')] } }))
    expect(broken.message).not.toContain('secret')
  })
})
