// Starts a daemon when none runs. If two commands do this at once, the daemon's lock lets one daemon start, and both commands find it
// listening.
import { spawn } from 'node:child_process'
import { closeSync, fstatSync, mkdirSync, openSync, readSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { DATA_FILES, SandglassError } from '@sandglass/contract/tables'
import type { Context } from '../command.ts'
import { daemonArgv, runDaemonCommand } from './daemon-program.ts'
import type { Settings } from './settings.ts'

const DEADLINE_MS = 30_000
const NOTE_AFTER_MS = 1000
/** The exit code of a daemon that refuses its configuration. */
const CONFIG_REFUSED = 2
/** If the folder is locked by another daemon, how long that one may take until it listens. */
const OTHER_DAEMON_MS = 10_000

export async function startDaemon(settings: Settings, socketPath: string, { env, say, configPath }: Context): Promise<void> {
  mkdirSync(settings.dataDir, { recursive: true, mode: 0o700 })
  const logPath = join(settings.dataDir, DATA_FILES.daemonLog)
  const log = openSync(logPath, 'a+', 0o600)
  const logStart = fstatSync(log).size
  const [program, ...args] = daemonArgv('serve', ...flagsFor(settings, configPath !== undefined))
  // SECURITY: no key is put into argv or the environment: the daemon reads its files itself.
  const child = spawn(program, args, {
    detached: true,
    stdio: ['ignore', log, log],
    cwd: '/',
    env: env.SANDGLASS_DATA_DIR === undefined ? env : { ...env, SANDGLASS_DATA_DIR: settings.dataDir },
  })
  let died: { code: number | null } | undefined
  child.on('exit', code => {
    died = { code }
  })
  child.on('error', () => {
    died = { code: null }
  })
  child.unref()
  try {
    let deadline = Date.now() + DEADLINE_MS
    let noteAt = Date.now() + NOTE_AFTER_MS
    for (let wait = 5; !(await isListening(socketPath)); wait = Math.min(100, wait * 1.5)) {
      if (died) {
        const last = logEnd(log, logStart)
        if (!last.includes('DATA_DIR_LOCKED') && !last.includes('already uses'))
          throw (await configError(died.code, configPath)) ?? failure(socketPath, last, logPath)
        deadline = Math.min(deadline, Date.now() + OTHER_DAEMON_MS)
        died = undefined
      }
      if (Date.now() > deadline) throw failure(socketPath, logEnd(log, logStart) || 'it did not start listening in time', logPath)
      if (Date.now() > noteAt) {
        say('sandglass: starting the daemon…\n')
        noteAt = Number.POSITIVE_INFINITY
      }
      await delay(wait)
    }
  } finally {
    closeSync(log)
  }
}

/** A TCP port is opened only if the configuration asks for one: it may be in use, and other users of this machine can reach it. */
function flagsFor({ configPath, hasListen }: Settings, isConfigNamed: boolean): string[] {
  return [...(isConfigNamed ? ['--config', configPath] : []), ...(hasListen ? [] : ['--listen', 'unix'])]
}

function isListening(socketPath: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect(socketPath)
  socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
  return promise.finally(() => socket.destroy())
}

/** The end of the log since the offset `from`. */
function logEnd(log: number, from: number): string {
  const size = fstatSync(log).size
  const start = Math.max(from, size - 4096)
  const buffer = Buffer.alloc(Math.max(0, size - start))
  readSync(log, buffer, 0, buffer.length, start)
  return buffer.toString('utf8').trim()
}

/** If the daemon refused its configuration, the full error, as `serve` and `doctor` print it. */
async function configError(code: number | null, configPath: string | undefined): Promise<unknown> {
  if (code !== CONFIG_REFUSED) return undefined
  return await runDaemonCommand(['serve', '--print-config'], configPath).then(
    () => undefined,
    (error: unknown) => error,
  )
}

function failure(address: string, log: string, logPath: string): SandglassError {
  const { why, next = 'the log has more; `sandglass doctor` checks the host' } = exitReason(log)
  return new SandglassError('DAEMON_UNREACHABLE', { address, why: `the daemon did not start: ${why} (log: ${logPath})`, next })
}

/**
 * Why a daemon ended, from the end of its log: its own error message with the next step, the error that Node printed, or the message of the
 * last JSON line. Stack traces stay in the log.
 */
export function exitReason(log: string): { why: string; next?: string } {
  const lines = log.split('\n').filter(line => line.trim() !== '')
  const own = lines.findLastIndex(line => line.startsWith(OWN))
  if (own >= 0) {
    const next = lines.slice(own + 1).find(line => line.startsWith(NEXT))
    const why = lines[own]?.slice(OWN.length) ?? ''
    return next === undefined ? { why } : { why, next: next.slice(NEXT.length) }
  }
  const thrown = lines.findLast(line => /^(Uncaught )?\w*Error\b.*: /.test(line))
  const last = thrown ?? lines.findLast(line => !/^(\s|[{}]|Node\.js v)/.test(line) || line.startsWith('{"'))
  return { why: last === undefined ? 'it ended without an error message' : messageOf(last) }
}

const OWN = 'sandglass: '
const NEXT = '  next: '

function messageOf(line: string): string {
  try {
    const entry: { msg?: string; err?: { message?: string } } = JSON.parse(line)
    return entry.err?.message ?? entry.msg ?? line
  } catch {
    return line // not a log line
  }
}
