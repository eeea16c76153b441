import type { ProcessInfo, ProcessTableRow } from '@sandglass/sdk'
import type { Command } from '../../command.ts'
import { bytesText } from '../../output/bytes-text.ts'
import { printable } from '../../output/printable.ts'
import { toJson } from '../../output/show-session.ts'
import { table, tableWidth } from '../../output/table.ts'
import { resultWidth } from '../../output/wrap.ts'
import { shortDuration } from '../../parser/duration.ts'
import { oneArgument } from '../../parser/parse.ts'

export const command: Command = {
  summary: 'List the processes of a session',
  usage: ['NAME [--all]'],
  about: `Lists all running processes of the session. NOTE shows the tag of a process, or the name of a shell. CPU is the processor time
used so far.

--json prints the API's process table; with --all, the processes that have ended follow.`,
  options: { all: { type: 'boolean', short: 'a', about: 'also show processes that exec started and that have ended' } },
  completes: 'session',
  async run(input, { connect, json, print }) {
    const { processes } = (await connect()).session(oneArgument(input, 'NAME'))
    const rows = await processes.table()
    const ended = input.flags.all ? (await processes.list()).filter(({ running }) => !running) : []
    if (json) print(toJson([...rows, ...ended]))
    else print(processTable([...rows.map(runningCells), ...ended.map(endedCells)], process.stdout))
    return 0
  },
}

const HEAD = ['PID', 'USER', 'STATE', 'CPU', 'MEM', 'AGE', 'NOTE', 'COMMAND']

/** The command line gets the width that the other columns leave. */
function processTable(cells: string[][], stream: NodeJS.WriteStream): string {
  const others = tableWidth(
    HEAD.slice(0, -1),
    cells.map(row => row.slice(0, -1)),
  )
  const width = Math.max(MIN_COMMAND, resultWidth(stream) - others - 2)
  return table(
    HEAD,
    cells.map(row => [...row.slice(0, -1), start(printable(row.at(-1) ?? ''), width)]),
    stream,
  )
}

const MIN_COMMAND = 12
const start = (text: string, length: number) => (text.length > length ? `${text.slice(0, length - 1)}…` : text)

function runningCells({ pid, user, state, cpuMs, memoryBytes, createdAt, tag, shell, command }: ProcessTableRow): string[] {
  const note = tag ?? (shell === null ? '' : `shell ${shell}`)
  const cpu = `${(cpuMs / 1000).toFixed(2)}s`
  return [String(pid), user, STATES[state] ?? state, cpu, bytesText(memoryBytes), age(createdAt), note, command]
}

function endedCells({ pid, user, exitCode, limitHit, createdAt, tag, argv }: ProcessInfo): string[] {
  const state = `exited ${exitCode}${limitHit ? ` (${LIMITS[limitHit.limit]})` : ''}`
  return [String(pid), user, state, '-', '-', age(createdAt), tag ?? '', argv.join(' ')]
}

const LIMITS = { memory_mb: 'memory limit', pids_limit: 'process limit', disk_mb: 'disk full' } as const

const age = (since: string) => shortDuration(Math.max(0, Date.now() - Date.parse(since)))

/** The kernel's letters in words. */
const STATES: Readonly<Record<string, string>> = {
  R: 'running',
  S: 'sleeping',
  D: 'waiting',
  I: 'idle',
  T: 'stopped',
  t: 'traced',
  Z: 'zombie',
}
