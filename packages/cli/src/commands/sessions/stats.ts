import { setTimeout as delay } from 'node:timers/promises'
import { type SandboxClient, SandglassError, type SessionStats, toSnake } from '@sandglass/sdk'
import type { Command, Context } from '../../command.ts'
import { bytesText } from '../../output/bytes-text.ts'
import { LiveText } from '../../output/live-text.ts'
import { printableJson } from '../../output/printable.ts'
import { table } from '../../output/table.ts'
import { shortDuration } from '../../parser/duration.ts'

const EVERY_MS = 1000

export const command: Command = {
  summary: 'Show the cpu, memory, processes and disk that sessions use',
  usage: ['[NAME...] [--no-stream]'],
  about: `Without NAME it shows all running sessions. On a terminal the table is refreshed until Ctrl-C; otherwise it is printed once.
CPU is measured over the last second; 100% is one core.

--json prints one line per session.`,
  options: { stream: { type: 'boolean', isOn: true, about: 'print the table once, without refreshing it' } },
  completes: 'sessions',
  async run({ args, rest, flags }, context) {
    const names = [...args, ...(rest ?? [])]
    const isLive = typeof flags.stream === 'boolean' ? flags.stream : process.stdout.isTTY === true
    const client = await context.connect()
    for (const name of names) await client.getSession(name) // report a wrong name before anything is shown
    using shown = new LiveText(process.stdout)
    using stop = interrupted()
    let before = await measure(client, names)
    while (!stop.signal.aborted) {
      await delay(EVERY_MS, undefined, { signal: stop.signal }).catch(() => undefined) // the abort is checked below
      if (stop.signal.aborted) break
      const now = await measure(client, names)
      show(
        now.map(sample => ({ ...sample, cpuPercent: cpuPercent(sample, before) })),
        shown,
        context,
      )
      if (!isLive) break
      before = now
    }
    if (stop.signal.aborted && process.stdout.isTTY) context.say('\n') // after the ^C that the terminal echoed
    return 0
  },
}

type Sample = { id: string; name: string; status: string; at: number; stats: SessionStats | undefined }
type Row = Sample & { cpuPercent: number | undefined }

/** Named sessions are shown in any state. */
async function measure(client: SandboxClient, names: readonly string[]): Promise<Sample[]> {
  const sessions =
    names.length > 0
      ? await Promise.all(names.map(async name => (await client.getSession(name)).info))
      : await client.listSessions({ status: 'running' })
  return Promise.all(
    sessions.map(async ({ id, name, status }) => {
      const stats = status === 'running' ? await statsOf(client, id) : undefined
      return { id, name, status, at: performance.now(), stats }
    }),
  )
}

/** Undefined for a session that has ended, was paused or was lost meanwhile; the next round shows its state. */
async function statsOf(client: SandboxClient, id: string): Promise<SessionStats | undefined> {
  try {
    return await client.session(id).stats()
  } catch (error) {
    if (error instanceof SandglassError && !error.is('DAEMON_UNREACHABLE') && !error.is('INTERNAL')) return undefined
    throw error
  }
}

function cpuPercent({ id, at, stats }: Sample, before: readonly Sample[]): number | undefined {
  const last = before.find(sample => sample.id === id)
  if (!stats || !last?.stats || at <= last.at) return undefined
  const used = (stats.cpuUsageUsec - last.stats.cpuUsageUsec) / 1000
  return Math.max(0, (used / (at - last.at)) * 100)
}

function show(rows: readonly Row[], shown: LiveText, { json, print, say }: Context): void {
  if (json) {
    for (const { id, name, status, cpuPercent, stats } of rows)
      print(`${printableJson(toSnake({ id, name, status, cpuPercent: cpuPercent ?? null, ...stats }))}\n`)
  } else if (rows.length === 0 && !shown.isLive) say('no running sessions\n')
  else shown.replace(rows.length === 0 ? 'no running sessions\n' : table(HEAD, rows.map(cells), process.stdout))
}

const HEAD = ['NAME', 'CPU', 'MEM', 'PIDS', 'DISK', 'UPTIME']

function cells({ name, status, cpuPercent, stats }: Row): string[] {
  if (!stats) return [name, '-', '-', '-', '-', status]
  const { memoryBytes, memoryLimit, pids, pidsLimit, diskUsedBytes, diskLimitBytes, uptimeMs } = stats
  return [
    name,
    cpuPercent === undefined ? '-' : `${cpuPercent.toFixed(1)}%`,
    `${bytesText(memoryBytes)} / ${memoryLimit === null ? '-' : bytesText(memoryLimit)}`,
    `${pids} / ${pidsLimit ?? '-'}`,
    `${bytesText(diskUsedBytes)} / ${bytesText(diskLimitBytes)}`,
    shortDuration(uptimeMs),
  ]
}

/** Ctrl-C ends the table; that is not an error. */
function interrupted(): Disposable & { signal: AbortSignal } {
  const stop = new AbortController()
  const end = () => stop.abort()
  process.once('SIGINT', end).once('SIGTERM', end)
  return { signal: stop.signal, [Symbol.dispose]: () => void process.off('SIGINT', end).off('SIGTERM', end) }
}
