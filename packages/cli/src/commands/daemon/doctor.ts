import { styleText } from 'node:util'
import type { Command } from '../../command.ts'
import { runDaemonCommand } from '../../daemon/daemon-program.ts'
import { findDaemon, isOutdated } from '../../daemon/running-daemon.ts'
import type { Settings } from '../../daemon/settings.ts'
import { printable, printableJson } from '../../output/printable.ts'
import { hanging, resultWidth } from '../../output/wrap.ts'
import { noArguments } from '../../parser/parse.ts'

type Check = { name: string; status: 'ok' | 'weaker' | 'missing' | 'failed'; detail: string; fix: string | null }
type Report = { ok: boolean; checks: Check[] }

const COLOURS = { ok: 'green', weaker: 'yellow', missing: 'gray', failed: 'red' } as const
const SLOW_MS = 1000
const STATUS_WIDTH = 'missing  '.length

export const command: Command = {
  summary: 'Check what this machine can run, and how to fix the rest',
  usage: [''],
  about: `ok: works; weaker: works with a restriction; missing: not available, a fallback is used; failed: broken. A line that begins with
"fix:" says how to repair it.
Exit code 3 when no session can be created.`,
  options: {},
  async run(input, { configPath, json, print, quiet, say, settings }) {
    noArguments(input)
    // A machine is booted to see whether KVM works.
    const slow = setTimeout(() => quiet || json || say('trying each backend, for some seconds…\n'), SLOW_MS)
    const report: Report = JSON.parse(await runDaemonCommand(['doctor'], configPath).finally(() => clearTimeout(slow)))
    report.checks.push(checkDaemon(await settings()))
    if (json) print(`${printableJson(report, 2)}\n`)
    else for (const check of report.checks) print(lines(check, process.stdout))
    if (!json) print(report.ok ? '\nsessions can be created\n' : '\nsessions cannot be created yet: see fix above\n')
    return report.ok ? 0 : 3
  },
}

/** What doctor examines is the configuration as it is now; a daemon that runs may have read another. */
function checkDaemon(settings: Settings): Check {
  const daemon = findDaemon(settings.dataDir)
  if (!daemon) return { name: 'daemon', status: 'ok', detail: 'none runs; the next command starts one', fix: null }
  if (!isOutdated(daemon, settings)) return { name: 'daemon', status: 'ok', detail: `runs (pid ${daemon.pid})`, fix: null }
  const detail = `runs (pid ${daemon.pid}) with an older configuration than ${settings.configPath}`
  return { name: 'daemon', status: 'weaker', detail, fix: 'sandglass shutdown' }
}

function lines({ name, status, detail, fix }: Check, stream: NodeJS.WriteStream): string {
  const width = resultWidth(stream)
  const indent = ' '.repeat(STATUS_WIDTH)
  const told = hanging(indent, printable(`${name}: ${detail}`), width).slice(STATUS_WIDTH)
  const mended = fix ? hanging(`${indent}fix: `, printable(fix), width) : ''
  return styleText(COLOURS[status], status.padEnd(STATUS_WIDTH), { stream }) + told + mended
}
