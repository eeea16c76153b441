import { SESSION_NAME, SESSION_NAME_RULE } from '@sandglass/contract/tables'
import type { SandboxClient, Session, SessionOptions } from '@sandglass/sdk'
import type { Command, Context } from '../../command.ts'
import { createWithProgress } from '../../output/show-progress.ts'
import { noteDifferences, showSession } from '../../output/show-session.ts'
import { oneArgument, usage } from '../../parser/parse.ts'
import { SESSION_OPTIONS, specFromFlags } from '../../parser/spec-from-flags.ts'
import { attachTerminal, requireTerminal } from '../../terminal/attach-terminal.ts'

export const command: Command = {
  summary: 'Create a session',
  usage: ['[NAME] [FLAGS]'],
  about: `NAME has ${SESSION_NAME_RULE}. Without NAME, a name is generated.

Prints the name and the id. With --shell, opens a terminal in the session instead.`,
  options: { ...SESSION_OPTIONS, shell: { type: 'boolean', about: 'open a terminal in the session once it runs' } },
  changes: true,
  async run(input, context) {
    const spec = specFromFlags(input.flags)
    if (input.args.length > 0) {
      if (spec.name !== undefined) throw usage('the name is given twice')
      spec.name = oneArgument(input, 'NAME')
    }
    if (spec.name !== undefined && !SESSION_NAME.test(spec.name)) throw usage(notAName(spec.name))
    const isShell = input.flags.shell === true
    if (isShell && spec.start === false) throw usage('--shell needs a running session: leave out --no-start')
    if (isShell) requireTerminal()
    const client = await context.connect()
    if (spec.image !== undefined) await (await import('../image/pull.ts')).pullIfMissing(client, spec.image, context)
    const session = await create(client, spec, context)
    noteDifferences(session.info, spec, context)
    if (!isShell || context.json) showSession(session.info, context)
    return isShell ? attachTerminal(session, { name: session.name }, context) : 0
  },
}

async function create(client: SandboxClient, spec: SessionOptions, context: Context): Promise<Session> {
  using _ = noteOnInterrupt(spec.name, context)
  return await createWithProgress(client, spec, context)
}

/** Ctrl-C does not cancel a session whose creation has started, since other clients may see it already. */
function noteOnInterrupt(name: string | undefined, { say }: Context): Disposable {
  const leave = () => {
    const which = name === undefined ? 'a session' : `the session ${name}`
    say(
      `\nsandglass: interrupted; ${which} may still be created: \`sandglass ls\` shows it, \`sandglass rm -f ${name ?? 'NAME'}\` ends it\n`,
    )
    process.kill(process.pid, 'SIGINT') // the handler is gone, so the signal ends this process
  }
  process.once('SIGINT', leave)
  return { [Symbol.dispose]: () => void process.off('SIGINT', leave) }
}

function notAName(given: string): string {
  const near = given
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, '-')
    .replace(/^[^a-z]+|-+$/g, '')
    .slice(0, 41)
  const rule = `${given} is not a valid name: use ${SESSION_NAME_RULE}`
  return SESSION_NAME.test(near) ? `${rule}; did you mean ${near}?` : rule
}
