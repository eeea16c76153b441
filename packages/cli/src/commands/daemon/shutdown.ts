import { setTimeout as delay } from 'node:timers/promises'
import { SandglassError } from '@sandglass/contract/tables'
import type { Command, Context } from '../../command.ts'
import { findDaemon, type RunningDaemon } from '../../daemon/running-daemon.ts'
import { defaultDataDir, type Settings } from '../../daemon/settings.ts'
import { noArguments, usage } from '../../parser/parse.ts'

const DEADLINE_MS = 30_000
const POLL_MS = 20

export const command: Command = {
  summary: 'Stop the daemon; sessions keep running',
  usage: ['[--restart]'],
  about: `The next command starts a daemon again, with the current configuration. That daemon finds the running sessions, with their shells
and jobs. Use systemctl to stop a daemon that systemd started.`,
  options: { restart: { type: 'boolean', about: 'start the daemon again at once' } },
  async run(input, context) {
    noArguments(input)
    if (context.env.SANDGLASS_URL) throw usage('SANDGLASS_URL selects a remote daemon: stop it there')
    const dataDir = input.flags.restart ? (await context.settings()).dataDir : await dataDirOf(context)
    const daemon = findDaemon(dataDir)
    if (daemon) await stop(daemon, dataDir)
    if (input.flags.restart) await start(await context.settings(), context)
    const done = input.flags.restart ? 'restarted the daemon' : daemon ? 'stopped the daemon' : undefined
    if (context.json)
      context.print(`${JSON.stringify({ stopped: daemon !== undefined, restarted: input.flags.restart === true })}\n`)
    context.say(done ? `${done}; sessions keep running\n` : `no daemon runs in ${dataDir}\n`)
    return 0
  },
}

/**
 * An invalid configuration file does not prevent the daemon from being stopped. SECURITY: nothing is read from such a file; the daemon in the
 * default folder is stopped, if there is one.
 */
async function dataDirOf({ settings, configPath, env }: Context): Promise<string> {
  try {
    return (await settings()).dataDir
  } catch (error) {
    const folder = defaultDataDir(env)
    const isNamed = configPath !== undefined || env.SANDGLASS_CONFIG !== undefined
    if (isNamed || findDaemon(folder) === undefined) throw error
    return folder
  }
}

async function stop({ pid, isAlive }: RunningDaemon, dataDir: string): Promise<void> {
  const deadline = Date.now() + DEADLINE_MS
  try {
    process.kill(pid, 'SIGTERM')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EPERM') throw cannotStop(dataDir, `it is another user's (pid ${pid})`)
    if (code !== 'ESRCH') throw error
  }
  while (isAlive()) {
    if (Date.now() > deadline) throw cannotStop(dataDir, `it was asked to stop and is still running (pid ${pid})`)
    await delay(POLL_MS)
  }
}

const cannotStop = (address: string, why: string) => new SandglassError('DAEMON_UNREACHABLE', { address, why })

async function start(settings: Settings, context: Context): Promise<void> {
  if ('url' in settings.address)
    throw usage('--restart needs a unix socket among the listen addresses: start it with `sandglass serve`')
  const { startDaemon } = await import('../../daemon/start-daemon.ts')
  await startDaemon(settings, settings.address.socketPath, context)
}
