// What this host can and cannot do, and the command that mends each.
import { accessSync, constants, existsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Backend, RuntimeReport } from '../backends/backend.ts'
import { NO_CGROUP } from '../backends/machine/unenforced.ts'
import { allowedUnenforced } from '../config/allowed-unenforced.ts'
import type { Loaded } from '../config/load.ts'
import type { RunnerBinary } from '../runner-binary.ts'
import { plainCredentials } from './plain-credentials.ts'

/** `missing` is what fails in a backend while another one works. */
export type Check = { name: string; status: 'ok' | 'weaker' | 'missing' | 'failed'; detail: string; fix: string | null }
export type Report = { ok: boolean; checks: Check[] }

export type DoctorOptions = { loaded: Loaded; backends: readonly Backend[]; runner: RunnerBinary }

export async function examine({ loaded, backends, runner }: DoctorOptions): Promise<Report> {
  const tried = await Promise.all(backends.map(backend => checkBackend(loaded, backend)))
  const isUsable = tried.some(checks => checks.every(({ status }) => status !== 'failed'))
  const checks: Check[] = [
    { name: 'node', status: 'ok', detail: process.version, fix: null } as const,
    checkRunner(runner),
    checkDataDir(loaded.dataDir),
    ...plainCredentials(loaded).map(found => ({ name: 'secrets', status: 'weaker' as const, ...found })),
    ...tried.flat().map(check => (isUsable && check.status === 'failed' ? { ...check, status: 'missing' as const } : check)),
  ]
  return { ok: checks.every(check => check.status !== 'failed'), checks }
}

function checkRunner({ path, fix }: RunnerBinary): Check {
  const found = isAllowed(path, constants.X_OK)
  return {
    name: 'runner',
    status: found ? 'ok' : 'failed',
    detail: found ? path : `${path} is missing`,
    fix: found ? null : fix,
  }
}

function checkDataDir(path: string): Check {
  let nearest = path
  while (!existsSync(nearest)) nearest = dirname(nearest)
  const writable = isAllowed(nearest, constants.W_OK)
  return {
    name: 'data_dir',
    status: writable ? 'ok' : 'failed',
    detail: writable ? path : `${nearest} cannot be written`,
    fix: writable ? null : 'set data_dir to a folder you own',
  }
}

function isAllowed(path: string, mode: number): boolean {
  try {
    accessSync(path, mode)
    return true
  } catch {
    return false // the answer, not a failure
  }
}

const KERNELS = { shared: 'on the kernel of the host', own: 'on a kernel of its own' }

/** A limit that cannot be enforced is a failure until the configuration allows exactly that. */
async function checkBackend({ config, filePath }: Loaded, backend: Backend): Promise<Check[]> {
  const probe = await backend.probe(true)
  const name = `backend ${backend.name}`
  if (!probe.available) return [{ name, status: 'failed', detail: probe.why ?? 'not available', fix: probe.fix }]
  const allowed = probe.unenforceable.filter(limit => allowedUnenforced(config, backend.name).includes(limit))
  const refused = probe.unenforceable.filter(limit => !allowed.includes(limit))
  return [
    { name, status: 'ok', detail: `${probe.detail}, ${KERNELS[probe.kernel]}`, fix: null },
    ...((await backend.runtimes?.()) ?? []).map(runtime => runtimeCheck(name, runtime)),
    ...limitsCheck(`${name}: limits`, 'weaker', allowed, 'not enforced here, as the configuration allows', null),
    ...limitsCheck(
      `${name}: limits`,
      'failed',
      refused,
      `cannot be enforced here, so sessions are refused: ${probe.unenforceableWhy ?? NO_CGROUP}`,
      `${probe.unenforceableFix ?? 'run the daemon as root'}; or accept it: backends.${backend.name}.allow_unenforced: [${probe.unenforceable.join(', ')}] in ${filePath}`,
    ),
    ...probe.weaker.map(({ what, fix }) => ({ name, status: 'weaker' as const, detail: what, fix })),
  ]
}

/** A runtime that is named and cannot be used harms only sessions that ask for it. */
function runtimeCheck(backend: string, { name, version, why, fix }: RuntimeReport): Check {
  const status = version === null ? 'missing' : 'ok'
  return { name: `${backend}: runtime ${name}`, status, detail: version ?? why ?? 'does not run', fix }
}

/** One line for all limits: they have one cause. */
function limitsCheck(
  name: string,
  status: Check['status'],
  limits: readonly string[],
  what: string,
  fix: string | null,
): Check[] {
  return limits.length > 0 ? [{ name, status, detail: `${limits.join(', ')} ${what}`, fix }] : []
}

export function readable({ ok, checks }: Report): string {
  const lines = checks.map(
    ({ name, status, detail, fix }) => `${status.padEnd(7)} ${name}: ${detail}${fix ? `\n        fix: ${fix}` : ''}`,
  )
  return `${lines.join('\n')}\n${ok ? 'sessions can be created' : 'sessions cannot be created yet'}\n`
}
