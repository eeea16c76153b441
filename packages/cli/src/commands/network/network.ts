// `sandglass network`.
import { isFiltered, SESSION_LIFECYCLE } from '@sandglass/contract/tables'
import { type Session, toSnake } from '@sandglass/sdk'
import type { Command } from '../../command.ts'
import { printable, printableJson } from '../../output/printable.ts'
import { oneArgument, text, usage } from '../../parser/parse.ts'
import { networkLine } from './network-line.ts'

export const command: Command = {
  summary: 'Show what a session has sent over the network',
  usage: ['NAME [-f] [--blocked] [--tail N]'],
  about: `Prints one line per request: the time, whether it was allowed, method and URL, the status of the reply, bytes received, the time it
took, and the rule that allowed it or the reason why not. The values of secrets are not in it.

On a terminal, times are local and short, and a long line is continued in a second one. Elsewhere each entry is one line. --json prints
one line of JSON per entry.`,
  options: {
    follow: { type: 'boolean', short: 'f', about: 'print new entries as they come' },
    blocked: { type: 'boolean', about: 'only requests that were refused or failed' },
    tail: { type: 'string', value: 'N', about: 'only the last N entries' },
  },
  completes: 'session',
  async run(input, { connect, json, print, say }) {
    const name = oneArgument(input, 'NAME')
    const { flags } = input
    const follow = flags.follow === true
    const options = { follow, blocked: flags.blocked === true || undefined, tail: tailOf(text(flags.tail)) }
    const session = (await connect()).session(name)
    const unlogged = await noLogText(session)
    if (unlogged !== undefined && follow) {
      say(unlogged)
      return 0
    }
    let count = 0
    for await (const entry of session.network.log(options)) {
      print(`${json ? printableJson(toSnake(entry)) : networkLine(entry, process.stdout)}\n`)
      count++
    }
    if (count === 0)
      say(unlogged ?? `${printable(name)} has ${flags.blocked ? 'no refused or failed requests' : 'sent nothing'}\n`)
    return 0
  },
}

/** Says that nothing is logged for a session whose requests do not pass the proxy; undefined for any other. It may have a log of before. */
async function noLogText(session: Session): Promise<string | undefined> {
  const { name, network, status } = await session.refresh()
  if (isFiltered(network)) return undefined
  const why = network === 'none' ? 'has no network (none), so there is no log' : `has the network ${network}, which no log sees`
  const start = `\`sandglass start ${name} --policy POLICY\``
  const events = SESSION_LIFECYCLE[status]
  const next = 'start' in events ? start : 'stop' in events ? `\`sandglass stop ${name}\`, then ${start}` : undefined
  return `${name} ${why}\n${next === undefined ? '' : `  next: ${next}\n`}`
}

function tailOf(given: string | undefined): number | undefined {
  if (given === undefined) return undefined
  if (!/^\d{1,7}$/.test(given)) throw usage(`--tail takes a number, not ${given}`)
  return Number(given)
}
