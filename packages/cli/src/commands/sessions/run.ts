import { type ProcessOptions, type SandboxClient, SandglassError, type Session, type SessionOptions } from '@sandglass/sdk'
import type { Command, Context, Input } from '../../command.ts'
import { execOutcome } from '../../exec/exec-outcome.ts'
import { hasStdin } from '../../exec/has-stdin.ts'
import { INTERRUPTED, leave, TERMINATED } from '../../exec/interrupts.ts'
import { noteNoTerminal } from '../../exec/no-terminal-note.ts'
import { type Leaving, runProcess } from '../../exec/run-process.ts'
import { printable } from '../../output/printable.ts'
import { createWithProgress } from '../../output/show-progress.ts'
import { noteDifferences } from '../../output/show-session.ts'
import { parseDuration } from '../../parser/duration.ts'
import { text, usage } from '../../parser/parse.ts'
import { SESSION_OPTIONS, specFromFlags } from '../../parser/spec-from-flags.ts'
import { requireTerminal, terminalSize } from '../../terminal/attach-terminal.ts'

/** The session of a command line that was killed ends by itself after this: nobody is attached, and nothing holds its lease. */
const TTL_SECONDS = 60

const { start: _, ...sessionOptions } = SESSION_OPTIONS

export const command: Command = {
  summary: 'Run one command in a temporary session',
  usage: ['[IMAGE] [FLAGS] -- PROGRAM [ARGUMENT]...'],
  about: `Creates a session, runs the program in it, passes its exit code on and removes the session. With --keep the session stays,
and its name is printed on stderr.

stdin is passed on when it is a pipe or a file. Ctrl-C interrupts the program; pressed three times it ends the session. The session of
a run that was killed ends by itself a minute later.

Exit code: the program's own; 128+n for a signal, which is 137 for a program that the memory limit ended, 124 after --timeout, 127 or
126 for a program that is not there or may not be run, and 125 when Sandglass itself failed.`,
  options: {
    'copy-in': {
      type: 'boolean',
      about: 'copy the current folder into /workspace first; the program runs only if all of it could be read',
    },
    keep: { type: 'boolean', about: 'keep the session' },
    rm: { type: 'boolean', about: 'remove the session at the end (default)' },
    timeout: { type: 'string', value: 'DURATION', about: 'end the program after this, like 30s or 5m' },
    tty: { type: 'boolean', short: 't', about: 'run the program on a terminal' },
    user: { type: 'string', choices: ['sandbox', 'root'], about: 'user inside' },
    cwd: { type: 'string', value: 'PATH', about: 'working directory of the program' },
    raw: { type: 'boolean', about: 'output exactly as printed' },
    stdin: { type: 'boolean', about: 'pass stdin on even when it is neither a pipe nor a file; --no-stdin: never' },
    ...sessionOptions,
    env: { type: 'string', short: 'e', multiple: true, value: 'NAME=VALUE', about: 'environment variable' },
  },
  changes: true,
  async run(input, context) {
    const { flags, rest } = input
    const spec = specOf(input)
    if (rest === undefined || rest.length === 0)
      throw usage(`nothing to run: the program goes behind --, as in sandglass run -- ${input.args[0] ?? 'ls'}`)
    if (flags.keep && flags.rm) throw usage('give either --keep or --rm, not both')
    if (flags.tty && context.json) throw usage('a terminal has no one reply: leave out --json or -t')
    if (flags.tty) requireTerminal()
    const tty = flags.tty ? terminalSize() : undefined
    const timeout = text(flags.timeout)
    const options = {
      tty,
      timeoutMs: timeout === undefined ? undefined : parseDuration(timeout, 's', '--timeout'),
      user: text(flags.user) as ProcessOptions['user'],
      cwd: text(flags.cwd),
      stdin: tty !== undefined || (typeof flags.stdin === 'boolean' ? flags.stdin : hasStdin()),
      isRaw: flags.raw === true,
    }
    return execOutcome(async () => {
      const client = await context.connect()
      if (spec.image !== undefined) await (await import('../image/bring.ts')).bringImage(client, spec.image, context)
      await using made = await makeSession(client, spec, flags.keep === true, context)
      const { session, leaving } = made
      noteDifferences(session.info, spec, context)
      if (flags['copy-in']) await copyIn(session, context)
      if (!options.stdin) noteNoTerminal(rest, context)
      return await runProcess(session, [...rest], { ...options, name: flags.keep ? spec.name : null, leaving }, context)
    }, context)
  },
}

function specOf({ args, flags }: Input): SessionOptions & { name: string } {
  const [image, ...more] = args
  if (more.length > 0) throw usage(`write -- in front of the program: sandglass run ${image} -- ${more.join(' ')}`)
  const spec = specFromFlags(flags)
  if (image !== undefined && spec.image !== undefined) throw usage('the image is given twice')
  if (flags.keep !== true && spec.ttlSeconds === undefined) spec.ttlSeconds = TTL_SECONDS
  return { ...spec, ...(image === undefined ? {} : { image }), name: spec.name ?? madeUpName() }
}

/** Known before the session is there, so that it can be removed when the command line is interrupted meanwhile. */
const madeUpName = () => `run-${crypto.randomUUID().slice(0, 8)}`

type Made = AsyncDisposable & { session: Session; leaving: Leaving | undefined }

/** A session that is removed at the end, however that comes, unless it is kept. */
async function makeSession(
  client: SandboxClient,
  spec: SessionOptions & { name: string },
  isKept: boolean,
  context: Context,
): Promise<Made> {
  const shown = printable(spec.name)
  const remove = () => client.session(spec.name).destroy({ purge: true }).catch(unlessGone)
  const left = isKept ? { farewell: `interrupted; the session ${shown} stays` } : { farewell: `removing ${shown}`, end: remove }
  const onInterrupt = () => void leave(INTERRUPTED, left, context)
  const onTerminate = () => void leave(TERMINATED, left, context)
  process.once('SIGINT', onInterrupt).once('SIGTERM', onTerminate)
  const release = () => void process.off('SIGINT', onInterrupt).off('SIGTERM', onTerminate)
  try {
    const session = await createWithProgress(client, spec, context)
    const end = async () => {
      release()
      if (isKept) context.say(`kept the session ${shown}\n`)
      else await remove().catch(context.report) // the exit code is the program's all the same
    }
    return { session, leaving: isKept ? undefined : { ...left, third: 'ends it', onJoin: release }, [Symbol.asyncDispose]: end }
  } catch (error) {
    release()
    throw error
  }
}

/** Somebody else removed it, or it was not made yet when the user left; then its ttl ends it. */
function unlessGone(error: unknown): void {
  if (!(error instanceof SandglassError) || !error.is('SESSION_NOT_FOUND')) throw error
}

async function copyIn(session: Session, context: Context): Promise<void> {
  const [{ copyToSandbox }, { Omissions }, { Progress }] = await Promise.all([
    import('../../copy/to-sandbox.ts'),
    import('../../copy/omissions.ts'),
    import('../../copy/progress.ts'),
  ])
  using progress = new Progress({ isQuiet: context.quiet })
  const omissions = new Omissions(progress, context)
  const { onLeftOut, onUnreadable } = omissions
  const target = { session, name: session.name, path: '/workspace' }
  await copyToSandbox('./.', target, { progress, user: {}, onLeftOut, onUnreadable, onSkip: undefined })
  omissions.requireNoneUnreadable()
}
