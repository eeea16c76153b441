// `sandglass doctor`: what this host can and cannot do, and the command that fixes each problem.
import { accessSync, constants, existsSync } from 'node:fs'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { CREDENTIALS, type CredentialKey } from '@sandglass/contract'
import type { Backend, RuntimeReport } from '../backends/backend.ts'
import { launcherBeside } from '../backends/launcher/program.ts'
import { NO_CGROUP } from '../backends/machine/refusals.ts'
import { allowedUnenforced } from '../config/allowed-unenforced.ts'
import { CONFIG_KEYS } from '../config/keys.ts'
import type { Loaded, Origin } from '../config/load.ts'
import { checkEgress } from '../egress/check.ts'
import type { RunnerBinary } from '../runner-binary.ts'

/** `missing` is a failed check of one backend while another backend works. */
export type Check = { name: string; status: 'ok' | 'weaker' | 'missing' | 'failed'; detail: string; fix: string | null }
export type Report = { ok: boolean; checks: Check[] }

export type DoctorOptions = { loaded: Loaded; backends: readonly Backend[]; runner: RunnerBinary }

export async function runChecks({ loaded, backends, runner }: DoctorOptions): Promise<Report> {
  const backendChecks = await Promise.all(backends.map(backend => checkBackend(loaded, backend)))
  const isUsable = backendChecks.some(checks => checks.every(({ status }) => status !== 'failed'))
  const checks: Check[] = [
    { name: 'node', status: 'ok', detail: process.version, fix: null } as const,
    checkProgram('runner', runner),
    checkProgram('launcher', { ...runner, path: launcherBeside(runner.path) }),
    checkDataDir(loaded.dataDir),
    ...(await checkEgressProcess(loaded.dataDir)),
    ...checkCredentials(loaded),
    ...backendChecks
      .flat()
      .map(check => (isUsable && check.status === 'failed' ? { ...check, status: 'missing' as const } : check)),
  ]
  return { ok: checks.every(check => check.status !== 'failed'), checks }
}

export function formatReport({ ok, checks }: Report): string {
  const lines = checks.map(
    ({ name, status, detail, fix }) => `${status.padEnd(7)} ${name}: ${detail}${fix ? `\n        fix: ${fix}` : ''}`,
  )
  return `${lines.join('\n')}\n${ok ? 'sessions can be created' : 'sessions cannot be created yet'}\n`
}

/**
 * Runs `work` with a temporary data folder on the same disk. A backend removes leftovers of sessions when it is opened: in the real data folder
 * it would remove what a running daemon is using.
 */
export async function withTemporaryDataDir<T>(dataDir: string, work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(dataDir, 'doctor-')).catch(() => mkdtemp(join(tmpdir(), 'sandglass-doctor-')))
  try {
    const kernel = join(dataDir, 'kernel')
    if (existsSync(kernel)) await symlink(kernel, join(folder, 'kernel'))
    return await work(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function checkProgram(name: string, { path, fix }: RunnerBinary): Check {
  const found = isAccessible(path, constants.X_OK)
  return {
    name,
    status: found ? 'ok' : 'failed',
    detail: found ? path : `${path} is missing`,
    fix: found ? null : fix,
  }
}

function checkDataDir(path: string): Check {
  let nearest = path
  while (!existsSync(nearest)) nearest = dirname(nearest)
  const writable = isAccessible(nearest, constants.W_OK)
  return {
    name: 'data_dir',
    status: writable ? 'ok' : 'failed',
    detail: writable ? path : `${nearest} is not writable`,
    fix: writable ? null : 'set data_dir to a folder you own',
  }
}

/** The daemon replaces a process that does not answer, so this is never a reason for `failed`. */
async function checkEgressProcess(dataDir: string): Promise<Check[]> {
  const report = await checkEgress(dataDir)
  if (report === null) return []
  const fix = report.ok ? null : 'the next session with a policy starts another one; egress.log in the data folder says more'
  return [{ name: 'egress', status: report.ok ? 'ok' : 'weaker', detail: report.detail, fix }]
}

function isAccessible(path: string, mode: number): boolean {
  try {
    accessSync(path, mode)
    return true
  } catch {
    return false // the answer, not a failure
  }
}

const KEYS = Object.keys(CREDENTIALS) as CredentialKey[]

/** Keys of agents and backends that are stored in plain text. One check per place: the keys in one place have the same fix. */
function checkCredentials({ origins, filePath }: Loaded): Check[] {
  const from = (origin: Origin) => KEYS.filter(key => origins.get(key) === origin)
  const check = (keys: CredentialKey[], place: string, fix: string): Check[] =>
    keys.length > 0 ? [{ name: 'secrets', status: 'weaker', detail: `${keys.join(', ')}: in plain text ${place}`, fix }] : []
  return [
    ...check(from('file'), `in ${filePath}`, '`sandglass init` moves keys into the encrypted secret store'),
    ...check(from('environment'), 'in the environment', storeAndUnset(from('environment'))),
    ...check(from('flag'), 'on the command line', storeAndUnset(from('flag'))),
  ]
}

function storeAndUnset(keys: readonly CredentialKey[]): string {
  const names = keys.map(key => CREDENTIALS[key]).join(', ')
  const variables = CONFIG_KEYS.filter(({ path }) => keys.some(key => key === path)).map(key => key.variable)
  return `store each with \`sandglass secret set\` (${names}) and unset ${variables.join(', ')}`
}

const KERNELS = { shared: 'on the kernel of the host', own: 'on a kernel of its own' }

/** A limit that cannot be enforced is a failure unless the configuration accepts that limit. */
async function checkBackend({ config, filePath }: Loaded, backend: Backend): Promise<Check[]> {
  const probe = await backend.probe(true)
  const name = `backend ${backend.name}`
  if (!probe.available) return [{ name, status: 'failed', detail: probe.why ?? 'not available', fix: probe.fix }]
  const allowed = probe.unenforceable.filter(limit => allowedUnenforced(config, backend.name).includes(limit))
  const refused = probe.unenforceable.filter(limit => !allowed.includes(limit))
  return [
    { name, status: 'ok', detail: `${probe.detail}, ${KERNELS[probe.kernel]}`, fix: null },
    ...((await backend.runtimes?.()) ?? []).map(runtime => checkRuntime(name, runtime)),
    ...checkLimits(`${name}: limits`, 'weaker', allowed, 'not enforced here, as the configuration allows', null),
    ...checkLimits(
      `${name}: limits`,
      'failed',
      refused,
      `cannot be enforced here, so sessions are refused: ${probe.unenforceableWhy ?? NO_CGROUP}`,
      `${probe.unenforceableFix ?? 'run the daemon as root'}; or accept it: backends.${backend.name}.allow_unenforced: [${probe.unenforceable.join(', ')}] in ${filePath}`,
    ),
    ...probe.weaker.map(({ what, fix }) => ({ name, status: 'weaker' as const, detail: what, fix })),
  ]
}

/** A runtime in the configuration that cannot be used affects only sessions that ask for it. */
function checkRuntime(backend: string, { name, version, why, fix }: RuntimeReport): Check {
  const status = version === null ? 'missing' : 'ok'
  return { name: `${backend}: runtime ${name}`, status, detail: version ?? why ?? 'does not run', fix }
}

/** One check for all limits: they have one cause. */
function checkLimits(
  name: string,
  status: Check['status'],
  limits: readonly string[],
  what: string,
  fix: string | null,
): Check[] {
  return limits.length > 0 ? [{ name, status, detail: `${limits.join(', ')} ${what}`, fix }] : []
}
