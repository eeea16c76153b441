import { styleText } from 'node:util'
import type { Command } from '../command.ts'
import { askDaemon } from '../daemon-entry.ts'
import { noArguments } from '../parse.ts'
import { printable } from '../printable.ts'

type Check = { name: string; status: 'ok' | 'weaker' | 'failed'; detail: string; fix: string | null }
type Report = { ok: boolean; checks: Check[] }

const COLOURS = { ok: 'green', weaker: 'yellow', failed: 'red' } as const

export const command: Command = {
  summary: 'Check what this machine can run, and how to mend the rest',
  usage: [''],
  about: 'Exit code 3 when no session can be created.',
  options: {},
  async run(input, { configPath, json, print }) {
    noArguments(input)
    const report: Report = JSON.parse(await askDaemon(['doctor', '--json'], configPath))
    if (json) print(`${JSON.stringify(report, null, 2)}\n`)
    else for (const check of report.checks) print(line(check))
    if (!json) print(report.ok ? '\nsessions can be created\n' : '\nsessions cannot be created yet: see fix above\n')
    return report.ok ? 0 : 3
  },
}

function line({ name, status, detail, fix }: Check): string {
  const mark = styleText(COLOURS[status], status.padEnd(7), { stream: process.stdout })
  return `${mark} ${printable(name)}: ${printable(detail)}\n${fix ? `        fix: ${printable(fix)}\n` : ''}`
}
