import { LIMITS } from '@sandglass/contract/tables'
import { type Session, type SessionEvent, toSnake } from '@sandglass/sdk'
import type { Command, Context } from '../../command.ts'
import { limitNote } from '../../exec/notes.ts'
import { onBrokenPipe, safeSink } from '../../exec/output.ts'
import { printable, printableJson, printableLines } from '../../output/printable.ts'
import { usage } from '../../parser/parse.ts'
import { lastDetached, pidOf } from './find-process.ts'

export const command: Command = {
  summary: 'Show the output of a process, or the boot log of a session',
  usage: ['NAME [PID|TAG] [-f]', 'NAME --boot [-f]'],
  about: `Without PID it shows the process that exec -d started last. The last ${LIMITS.process_output_kept.max / 1024} KiB of stdout and of stderr are kept, also after the
process has ended. Its stderr is printed on stderr, as is a note about a limit that the session reached. With -f, new output is printed
until the process ends.

--boot shows the boot log. With -f, the state changes of the session follow, until the session ends or you press Ctrl-C.

--json prints one line per piece of output, with the bytes in base64, and a line with the exit code once the process has ended. With
--boot it prints the log in one line, and with -f one line per state change.`,
  options: {
    follow: { type: 'boolean', short: 'f', about: 'print new output as it comes' },
    boot: { type: 'boolean', about: 'show the boot log of the session' },
    raw: { type: 'boolean', about: 'print the output unchanged, with all escape sequences' },
  },
  completes: 'processes',
  async run({ args, rest, flags }, context) {
    const [name, process, ...more] = [...args, ...(rest ?? [])]
    if (name === undefined) throw usage('NAME is missing')
    if (more.length > 0) throw usage(`unexpected argument ${more[0]}: the command takes one process`)
    if (flags.boot && process !== undefined) throw usage('give either a process or --boot, not both')
    const session = (await context.connect()).session(name)
    const follow = flags.follow === true
    if (flags.boot) return bootLog(session, follow, context)
    const pid = process === undefined ? (await lastDetached(session))?.pid : await pidOf(session, process)
    if (pid !== undefined) return processOutput(session, { name, pid }, { follow, isRaw: flags.raw === true }, context)
    context.say(`no process of ${printable(name)} was started with exec -d; --boot shows the boot log\n`)
    return 0
  },
}

type Reading = { follow: boolean; isRaw: boolean }

async function processOutput(
  session: Session,
  { name, pid }: { name: string; pid: number },
  { follow, isRaw }: Reading,
  { json, print, say }: Context,
): Promise<number> {
  const sinks = { stdout: safeSink(process.stdout, isRaw), stderr: safeSink(process.stderr, isRaw) }
  onBrokenPipe([process.stderr], () => undefined) // stdout is still read
  const output = session.processes.output(pid, { follow })
  for (;;) {
    const next = await output.next()
    if (next.done) {
      const { limitHit = null } = next.value ?? {}
      if (json && next.value) print(`${printableJson(toSnake(next.value))}\n`)
      else if (limitHit) say(limitNote(printable(name), limitHit))
      return 0
    }
    const { stream, data } = next.value
    if (json) print(`${JSON.stringify({ stream, data_base64: Buffer.from(data).toString('base64') })}\n`)
    else await sinks[stream](data)
  }
}

async function bootLog(session: Session, follow: boolean, { json, print, say }: Context): Promise<number> {
  const log = await session.logs()
  // SECURITY: the runner writes this log, and programs in the sandbox may influence it.
  if (json) print(`${printableJson({ log })}\n`)
  else if (log) print(printableLines(log.endsWith('\n') ? log : `${log}\n`))
  else say('the boot log is empty: the session started without errors\n')
  if (!follow) return 0
  const { FINAL_STATES } = await import('@sandglass/contract/tables')
  for await (const event of session.events()) {
    print(json ? `${printableJson(toSnake(event))}\n` : line(event))
    if (FINAL_STATES.includes(event.status)) break
  }
  return 0
}

function line({ createdAt, type, reason, errorMessage }: SessionEvent): string {
  return `${createdAt} ${printable(type)} ${reason}${errorMessage ? `: ${printable(errorMessage)}` : ''}\n`
}
