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
  about: `NAME has ${SESSION_NAME_RULE}; without one a name is made up.

Prints its name and id; with --shell the name alone, and then it opens a terminal in it.`,
  options: { ...SESSION_OPTIONS, shell: { type: 'boolean', about: 'attach a terminal to its shell when it runs' } },
  changes: true,
  async run(input, context) {
    const spec = specFromFlags(input.flags)
    if (input.args.length > 0) {
      if (spec.name !== undefined) throw usage('the name is given twice')
      spec.name = oneArgument(input, 'NAME')
    }
    if (spec.name !== undefined && !SESSION_NAME.test(spec.name)) throw usage(notAName(spec.name))
    const isShell = input.flags.shell === true
    if (isShell && spec.start === false) throw usage('--shell needs a session that runs; leave out --no-start')
    if (isShell) requireTerminal()
    const client = await context.connect()
    if (spec.image !== undefined) await (await import('../image/pull.ts')).pullIfMissing(client, spec.image, context)
    const session = await make(client, spec, context)
    noteDifferences(session.info, spec, context)
    if (!isShell || context.json) showSession(session.info, context)
    return isShell ? attachTerminal(session, { name: session.name }, context) : 0
  },
}

async function make(client: SandboxClient, spec: SessionOptions, context: Context): Promise<Session> {
  using _ = sayWhatStays(spec.name, context)
  return await createWithProgress(client, spec, context)
}

/** Ctrl-C ends what is done before there is a session. One that is being made goes on, since others may see it already. */
function sayWhatStays(name: string | undefined, { say }: Context): Disposable {
  const leave = () => {
    const which = name === undefined ? 'a session that is' : `${name}, if it is`
    say(
      `\nsandglass: interrupted; ${which} already being made goes on: \`sandglass ls\` shows it, \`sandglass rm -f ${name ?? 'NAME'}\` ends it\n`,
    )
    process.kill(process.pid, 'SIGINT') // this time nobody is asked
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
  const rule = `${given} cannot be a name: write ${SESSION_NAME_RULE}`
  return SESSION_NAME.test(near) ? `${rule}; did you mean ${near}?` : rule
}
