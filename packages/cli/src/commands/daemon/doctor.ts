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
  summary: 'Check which backends this machine can run, and how to fix the others',
  usage: [''],
  about: `Each check has a status: ok (works), weaker (works with a restriction), missing (not available, a fallback is used) or failed.
A line that begins with "fix:" says how to repair it.

The exit code is 3 if no session can be created.`,
  options: {},
  async run(input, { configPath, json, print, quiet, say, settings }) {
    noArguments(input)
    // The check of KVM boots a virtual machine.
    const slow = setTimeout(() => quiet || json || say('trying each backend; this takes some seconds…\n'), SLOW_MS)
    const report: Report = JSON.parse(await runDaemonCommand(['doctor'], configPath).finally(() => clearTimeout(slow)))
    report.checks.push(checkDaemon(await settings()))
    if (json) print(`${printableJson(report, 2)}\n`)
    else for (const check of report.checks) print(lines(check, process.stdout))
    if (!json)
      print(report.ok ? '\nsessions can be created\n' : '\nno session can be created yet: see the lines with fix above\n')
    return report.ok ? 0 : 3
  },
}

/** doctor checks the current configuration; a running daemon may have read an older one. */
function checkDaemon(settings: Settings): Check {
  const daemon = findDaemon(settings.dataDir)
  if (!daemon) return { name: 'daemon', status: 'ok', detail: 'not running; the next command starts it', fix: null }
  if (!isOutdated(daemon, settings)) return { name: 'daemon', status: 'ok', detail: `running (pid ${daemon.pid})`, fix: null }
  const detail = `running (pid ${daemon.pid}) with an older configuration than ${settings.configPath}`
  return { name: 'daemon', status: 'weaker', detail, fix: 'sandglass shutdown' }
}

function lines({ name, status, detail, fix }: Check, stream: NodeJS.WriteStream): string {
  const width = resultWidth(stream)
  const indent = ' '.repeat(STATUS_WIDTH)
  const text = hanging(indent, printable(`${name}: ${detail}`), width).slice(STATUS_WIDTH)
  const fixText = fix ? hanging(`${indent}fix: `, printable(fix), width) : ''
  return styleText(COLOURS[status], status.padEnd(STATUS_WIDTH), { stream }) + text + fixText
}
