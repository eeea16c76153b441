import type { Command } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { table } from '../../output/table.ts'
import { oneArgument } from '../../parser/parse.ts'

export const command: Command = {
  summary: 'List listening TCP ports in a session',
  usage: ['NAME'],
  options: {},
  completes: 'session',
  async run(input, { connect, json, print, say }) {
    const name = oneArgument(input, 'NAME')
    const ports = await (await connect()).session(name).ports()
    if (json) print(toJson(ports))
    else if (ports.length === 0) say('no port is open\n')
    else
      print(
        table(
          ['PORT', 'ADDRESS', 'PID', 'COMMAND'],
          ports.map(p => [String(p.port), p.address, String(p.pid ?? '-'), p.command ?? '-']),
          process.stdout,
        ),
      )
    return 0
  },
}
