import { styleText } from 'node:util'
import type { Command } from '../command.ts'
import { askDaemon } from '../daemon-entry.ts'
import { noArguments } from '../parse.ts'
import { printable } from '../printable.ts'
import { findDaemon, isOutdated } from '../running-daemon.ts'
import type { Settings } from '../settings.ts'

type Check = { name: string; status: 'ok' | 'weaker' | 'failed'; detail: string; fix: string | null }
type Report = { ok: boolean; checks: Check[] }

const COLOURS = { ok: 'green', weaker: 'yellow', failed: 'red' } as const

export const command: Command = {
  summary: 'Check what this machine can run, and how to mend the rest',
  usage: [''],
  about: 'Exit code 3 when no session can be created.',
  options: {},
  async run(input, { configPath, json, print, settings }) {
    noArguments(input)
    const report: Report = JSON.parse(await askDaemon(['doctor', '--json'], configPath))
    report.checks.push(checkDaemon(await settings()))
    if (json) print(`${JSON.stringify(report, null, 2)}\n`)
    else for (const check of report.checks) print(line(check))
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

function line({ name, status, detail, fix }: Check): string {
  const mark = styleText(COLOURS[status], status.padEnd(7), { stream: process.stdout })
  return `${mark} ${printable(name)}: ${printable(detail)}\n${fix ? `        fix: ${printable(fix)}\n` : ''}`
}
