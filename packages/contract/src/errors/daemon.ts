// Errors of the daemon: configuration, data folder, secrets.
import type { ErrorRow } from './row.ts'

/** `source` is a file, a variable, a flag, or a key of the configuration. */
type Misconfigured = { source: string; issue: string; next?: string }

/** What may still run in a session after the connection to the daemon is lost: the process `pid`, or else a command in a shell. */
type StillRunning = { session?: string; pid?: number }

export const DAEMON_ERRORS = {
  SECRET_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { name: string }) => `no secret ${d.name}`,
    hint: '`sandglass secret ls` shows the names',
  },
  SHUTTING_DOWN: {
    http: 503,
    exit: 3,
    text: (_: StillRunning) => 'the daemon is stopping',
    hint: (d: StillRunning) => mayRunOn(d) ?? 'try again in a moment: sessions keep running',
  },
  CONFIG_INVALID: {
    http: 500,
    exit: 2,
    text: (d: Misconfigured) => `${d.source}: ${d.issue}`,
    hint: (d: Misconfigured) => d.next ?? fixConfig(d.source),
  },
  CONFIG_INSECURE: {
    http: 500,
    exit: 2,
    text: (d: { path: string; mode: string }) => `${d.path} has mode ${d.mode}: others could read its keys`,
    hint: (d: { path: string }) => `chmod 600 ${d.path}`,
  },
  DAEMON_UNREACHABLE: {
    http: 503,
    exit: 3,
    text: (d: StillRunning & { address: string; why: string; next?: string }) =>
      `cannot reach the daemon at ${d.address}: ${d.why}`,
    hint: (d: StillRunning & { next?: string }) =>
      d.next ?? mayRunOn(d) ?? '`sandglass serve` starts one; `sandglass doctor` checks the host',
  },
  DATA_DIR_LOCKED: {
    http: 500,
    exit: 3,
    text: (d: { path: string; pid: string }) => `another daemon (pid ${d.pid}) already uses ${d.path}`,
    hint: '`sandglass shutdown` stops it; or start this one with another data_dir',
  },
  DATA_DIR_UNWRITABLE: {
    http: 500,
    exit: 2,
    text: (d: { path: string; why: string }) => `cannot write to the data folder ${d.path}: ${d.why}`,
    hint: 'set data_dir to a folder you own',
  },
  STORE_DAMAGED: {
    http: 500,
    exit: 3,
    text: (d: { path: string; why: string }) => `the database ${d.path} is damaged: ${d.why}`,
    hint: 'restore a backup; or move the file away with its -wal and -shm files: the next start then removes every sandbox listed in it',
  },
  SECRET_KEY_LOST: {
    http: 500,
    exit: 3,
    text: (d: { path: string; why: string; store: string }) =>
      `${d.path} ${d.why}, and ${d.store} contains values encrypted with it`,
    hint: 'restore the key file from a backup; without one, move the database away with its -wal and -shm files: the next start then removes every sandbox listed in it',
  },
  SECRET_UNREADABLE: {
    http: 500,
    exit: 3,
    text: (d: { what: string }) => `${d.what} cannot be decrypted: the stored value was changed or encrypted with another key`,
    hint: 'set a secret again with `sandglass secret set`; create a session again with its environment',
  },
  INTERNAL: {
    http: 500,
    exit: 1,
    text: (d: { message?: string; next?: string }) => d.message ?? 'internal error',
    hint: (d: { next?: string }) => d.next ?? 'the daemon log has the details under this request id',
  },
} as const satisfies Record<string, ErrorRow>

/** Warns a caller who would otherwise run the command a second time. */
function mayRunOn({ session, pid }: StillRunning): string | undefined {
  if (session === undefined) return undefined
  if (pid !== undefined)
    return `process ${pid} may still be running in the session: \`sandglass ps ${session}\` shows it, \`sandglass attach ${session} --pid ${pid}\` attaches to it again`
  return `the command may still be running in the session: \`sandglass ps ${session}\` shows it, \`sandglass interrupt ${session}\` ends it`
}

function fixConfig(source: string): string {
  if (source.startsWith('--')) return '`sandglass help serve` lists the flags'
  if (source.startsWith('SANDGLASS_') || source === 'the environment')
    return 'change or unset the variable; docs/reference/configuration.md lists them'
  return `edit ${source.startsWith('/') ? source : 'the configuration file'}; docs/reference/configuration.md lists the keys`
}
