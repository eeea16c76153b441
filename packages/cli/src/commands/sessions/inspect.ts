import { type SessionInfo, toSnake } from '@sandglass/sdk'
import type { Command } from '../../command.ts'
import { printable } from '../../output/printable.ts'
import { toJson } from '../../output/show-session.ts'
import { hanging, resultWidth } from '../../output/wrap.ts'
import { oneArgument } from '../../parser/parse.ts'

export const command: Command = {
  summary: 'Show everything about a session',
  usage: ['NAME [--reveal-env]'],
  about: '--json also has the fields that repeat others under the names of sessions.json and sandboxes.json.',
  options: { 'reveal-env': { type: 'boolean', about: 'also show the values of the environment variables' } },
  completes: 'session',
  async run(input, { connect, json, print }) {
    const revealEnv = input.flags['reveal-env'] === true || undefined
    const { info } = await (await connect()).getSession(oneArgument(input, 'NAME'), { revealEnv })
    if (json) print(toJson(info))
    else
      for (const [field, value] of Object.entries(toSnake(withoutDuplicates(info)) as object))
        print(hanging(field.padEnd(18), shown(value), resultWidth(process.stdout)))
    return 0
  },
}

/** `timeout` and `config` repeat other fields under the names of the specs, for programs. */
const withoutDuplicates = ({ timeout: _, config: __, ...info }: SessionInfo) => info

type Mount = { source: string; target: string; readonly: boolean }
const isMount = (item: unknown): item is Mount => typeof item === 'object' && item !== null && 'source' in item
/** The form that --mount takes. */
const mountText = ({ source, target, readonly }: Mount) => `${source}:${target}${readonly ? '' : ':rw'}`

function shown(value: unknown): string {
  if (value === null || value === undefined) return '-'
  if (Array.isArray(value)) return printable(value.map(item => (isMount(item) ? mountText(item) : item)).join(', ')) || '-'
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
