// With no daemon running, the command line starts one. Two at once may both try: the daemon's own lock lets one win,
// and the other finds it listening.
import { spawn } from 'node:child_process'
import { closeSync, fstatSync, mkdirSync, openSync, readSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { DATA_FILES, SandglassError } from '@sandglass/contract/tables'
import type { Context } from '../command.ts'
import { askDaemon, daemonArgv } from './entry.ts'
import { reasonIn } from './last-words.ts'
import type { Settings } from './settings.ts'

const DEADLINE_MS = 30_000
const TALK_AFTER_MS = 1000
/** The exit code of a configuration that is not taken. */
const REFUSED = 2
/** How long a daemon that says the folder is taken may wait for the one that took it to listen. */
const LOSER_WAIT_MS = 10_000

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
    let talkAt = Date.now() + TALK_AFTER_MS
    for (let wait = 5; !(await isListening(socketPath)); wait = Math.min(100, wait * 1.5)) {
      if (died) {
        const last = lastWords(log, logStart)
        if (!last.includes('DATA_DIR_LOCKED') && !last.includes('already uses'))
          throw (await refusal(died.code, configPath)) ?? failure(socketPath, last, logPath)
        deadline = Math.min(deadline, Date.now() + LOSER_WAIT_MS)
        died = undefined
      }
      if (Date.now() > deadline)
        throw failure(socketPath, lastWords(log, logStart) || 'it did not start listening in time', logPath)
      if (Date.now() > talkAt) {
        say('sandglass: starting the daemon…\n')
        talkAt = Number.POSITIVE_INFINITY
      }
      await delay(wait)
    }
  } finally {
    closeSync(log)
  }
}

/** A TCP port is opened only for who asked for one: it may be taken, and another user of this machine can reach it. */
function flagsFor({ configPath, hasListen }: Settings, isConfigNamed: boolean): string[] {
  return [...(isConfigNamed ? ['--config', configPath] : []), ...(hasListen ? [] : ['--listen', 'unix'])]
}

function isListening(socketPath: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect(socketPath)
  socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
  return promise.finally(() => socket.destroy())
}

/** The end of what the daemon wrote since `from`. */
function lastWords(log: number, from: number): string {
  const size = fstatSync(log).size
  const start = Math.max(from, size - 4096)
  const buffer = Buffer.alloc(Math.max(0, size - start))
  readSync(log, buffer, 0, buffer.length, start)
  return buffer.toString('utf8').trim()
}

/** Why it refuses its configuration, if that is what it does: told in full, as `serve` and `doctor` tell it. */
async function refusal(code: number | null, configPath: string | undefined): Promise<unknown> {
  if (code !== REFUSED) return undefined
  return await askDaemon(['serve', '--print-config'], configPath).then(
    () => undefined,
    (error: unknown) => error,
  )
}

function failure(address: string, said: string, logPath: string): SandglassError {
  const { why, next = 'the log has more; `sandglass doctor` checks the host' } = reasonIn(said)
  return new SandglassError('DAEMON_UNREACHABLE', { address, why: `the daemon did not start: ${why} (log: ${logPath})`, next })
}
