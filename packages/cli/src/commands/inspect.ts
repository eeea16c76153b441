import { toSnake } from '@sandglass/sdk'
import type { Command } from '../command.ts'
import { oneArgument } from '../parse.ts'
import { printable } from '../printable.ts'
import { toJson } from '../show-session.ts'

export const command: Command = {
  summary: 'Show everything about a session',
  usage: ['NAME'],
  options: {},
  completes: 'sessions',
  async run(input, { connect, json, print }) {
    const { info } = await (await connect()).getSession(oneArgument(input, 'NAME'))
    if (json) print(toJson(info))
    else for (const [field, value] of Object.entries(toSnake(info) as object)) print(`${field.padEnd(18)}${shown(value)}\n`)
    return 0
  },
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return '-'
  if (Array.isArray(value)) return printable(value.join(', ')) || '-'
  if (typeof value === 'object')
    return (
      printable(
        Object.entries(value)
          .map(([name, entry]) => `${name}=${entry}`)
          .join(', '),
      ) || '-'
    )
  return printable(String(value))
}
