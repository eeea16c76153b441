import { describe, expect, it } from 'vitest'
import { Config } from '../schemas/config.ts'
import { ExecRequest, ProcessSpec } from '../schemas/exec.ts'
import { ListQuery, ReadQuery, SearchQuery } from '../schemas/files.ts'
import { Env, Labels, Path, Size, within } from '../schemas/primitives.ts'
import { SecretName, SecretSpec } from '../schemas/secrets.ts'
import { SessionQuery, SessionSpec } from '../schemas/session.ts'
import { LIMITS } from './limits.ts'
import { FILE_ROOTS } from './sandbox.ts'

type Parser = { safeParse(value: unknown): { success: boolean } }
const takes = (schema: Parser, value: unknown) => schema.safeParse(value).success

describe('the limits', () => {
  it.each(Object.entries(LIMITS))('%s: min, default and max are in order', (_, row) => {
    const { min = 0, max, default: fallback }: { min?: number; max: number; default?: number | null } = row
    expect(min).toBeLessThanOrEqual(max)
    if (typeof fallback === 'number') {
      expect(fallback).toBeGreaterThanOrEqual(min)
      expect(fallback).toBeLessThanOrEqual(max)
    }
  })

  it.each([
    ['cpu_cores', 'cpu_cores'],
    ['memory_mb', 'memory_mb'],
    ['disk_mb', 'disk_mb'],
    ['pids_limit', 'pids_limit'],
    ['ttl_seconds', 'session_ttl_seconds'],
    ['timeout_sec', 'session_timeout_sec'],
  ] as const)('creating a session refuses a %s outside its limits', (field, name) => {
    const row = LIMITS[name]
    const [min, max] = [row.min, 'highest' in row ? row.highest : row.max]
    expect(takes(SessionSpec, { [field]: min })).toBe(true)
    expect(takes(SessionSpec, { [field]: max })).toBe(true)
    expect(takes(SessionSpec, { [field]: min - 0.5 })).toBe(false)
    expect(takes(SessionSpec, { [field]: max + 1 })).toBe(false)
  })

  it.each([
    ['a command line', (n: number) => takes(ExecRequest, { cmd: 'x'.repeat(n) }), LIMITS.exec_command_bytes.max],
    ['exec output', (n: number) => takes(ExecRequest, { cmd: 'x', max_output_bytes: n }), LIMITS.exec_output_bytes.max],
    ['fs/read', (n: number) => takes(ReadQuery, { path: 'x', max_bytes: String(n) }), LIMITS.fs_read_bytes.max],
    ['a path', (n: number) => takes(Path, 'x'.repeat(n)), LIMITS.path_bytes.max],
    ['argv', (n: number) => takes(ProcessSpec, { argv: ['x'.repeat(n - 1)] }), LIMITS.argv_bytes.max],
    ['a page', (n: number) => takes(SessionQuery, { limit: String(n) }), LIMITS.list_page.max],
    ['a directory listing', (n: number) => takes(ListQuery, { max_entries: String(n) }), LIMITS.dir_entries.max],
    ['a search', (n: number) => takes(SearchQuery, { max_matches: String(n) }), LIMITS.search_matches.max],
    ['a terminal', (n: number) => takes(Size, { cols: n, rows: n }), LIMITS.terminal_size.max],
    ['environment variables', (n: number) => takes(Env, numbered(n)), LIMITS.env_keys.max],
    ['environment bytes', (n: number) => takes(Env, { A: 'x'.repeat(n - 1) }), LIMITS.env_bytes.max],
    ['the value of a secret', (n: number) => takes(SecretSpec, { value: 'x'.repeat(n) }), LIMITS.secret_value_bytes.max],
    ['the name of a secret', (n: number) => takes(SecretName, 'x'.repeat(n)), LIMITS.secret_name.max],
    ['labels', (n: number) => takes(Labels, numbered(n)), LIMITS.labels.max],
  ] as const)('%s: the maximum is taken and one more is refused', (_, accepts, max) => {
    expect(accepts(max)).toBe(true)
    expect(accepts(max + 1)).toBe(false)
  })

  it('bytes are counted, not characters', () => {
    expect(takes(Path, 'é'.repeat(LIMITS.path_bytes.max / 2 + 1))).toBe(false)
  })

  it('an empty configuration is the table’s defaults', () => {
    const config = Config.parse({})
    expect(config.session_ttl_seconds).toBe(LIMITS.session_ttl_seconds.default)
    expect(config.defaults).toEqual({
      cpu_cores: LIMITS.cpu_cores.default,
      memory_mb: LIMITS.memory_mb.default,
      disk_mb: LIMITS.disk_mb.default,
      pids_limit: LIMITS.pids_limit.default,
      max_exec_timeout_ms: LIMITS.exec_timeout_ms.max,
      network: 'none',
      readonly_rootfs: true,
    })
  })

  it('a configuration whose defaults are above its own ceiling is refused, and one that raises both is taken', () => {
    const [defaults, limits] = [{ memory_mb: 16_384 }, { max_memory_mb: 32_768 }]
    const [issue] = Config.safeParse({ defaults }).error?.issues ?? []
    expect(issue).toMatchObject({
      path: ['defaults', 'memory_mb'],
      message: 'must be at most 8192, which is limits.max_memory_mb',
    })
    expect(Config.parse({ defaults, limits }).limits).toMatchObject({
      max_memory_mb: 32_768,
      max_cpu_cores: LIMITS.cpu_cores.max,
    })
  })

  it('cores may be fractions, mebibytes may not', () => {
    expect(takes(within('cpu_cores'), 1.5)).toBe(true)
    expect(takes(within('memory_mb'), 512.5)).toBe(false)
  })

  it('the file roots are absolute and distinct', () => {
    expect(FILE_ROOTS.every(r => r.startsWith('/') && !r.endsWith('/'))).toBe(true)
    expect(new Set(FILE_ROOTS).size).toBe(FILE_ROOTS.length)
  })
})

const numbered = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`a${i}`, '']))
