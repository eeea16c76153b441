import { SIGNALS, signalName } from '@sandglass/contract/tables'
import type { Command } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { text, usage } from '../../parser/parse.ts'
import { pidOf } from './find-process.ts'

export const command: Command = {
  summary: 'Send a signal to processes of a session',
  usage: ['NAME PID|TAG... [-s SIGNAL]'],
  about: `Takes any process that sandglass ps lists. For a process that exec started, the signal goes to its whole process group.

SIGNAL may be written as TERM, SIGTERM, term or 15.`,
  options: {
    signal: { type: 'string', short: 's', value: 'SIGNAL', suggested: SIGNALS, about: 'signal to send; TERM by default' },
  },
  completes: 'processes',
  changes: true,
  async run({ args, rest, flags }, { connect, json, print }) {
    const [name, ...given] = [...args, ...(rest ?? [])]
    if (name === undefined) throw usage('NAME is missing')
    if (given.length === 0) throw usage('PID is missing: `sandglass ps` lists the processes')
    const wanted = text(flags.signal) ?? 'TERM'
    const signal = signalName(wanted)
    if (signal === undefined) throw usage(`${wanted} is not a supported signal: use one of ${SIGNALS.join(', ')}`)
    const session = (await connect()).session(name)
    const signalled: number[] = []
    for (const one of given) {
      const pid = await pidOf(session, one)
      await session.processes.signal(pid, signal)
      signalled.push(pid)
    }
    if (json) print(toJson({ signal, signalled }))
    return 0
  },
}
