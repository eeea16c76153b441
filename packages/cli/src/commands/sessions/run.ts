import { type SandboxClient, SandglassError, type Session, type SessionOptions } from '@sandglass/sdk'
import type { Command, Context, Input } from '../../command.ts'
import { commandExitCode, INTERRUPTED, TERMINATED } from '../../exec/exit-codes.ts'
import { type EarlyExit, exitEarly } from '../../exec/interrupts.ts'
import { noteNoTerminal } from '../../exec/notes.ts'
import { PROCESS_FLAGS, processSettings } from '../../exec/process-flags.ts'
import { runProcess } from '../../exec/run-process.ts'
import { printable } from '../../output/printable.ts'
import { createWithProgress } from '../../output/show-progress.ts'
import { noteDifferences } from '../../output/show-session.ts'
import { usage } from '../../parser/parse.ts'
import { SESSION_OPTIONS, specFromFlags } from '../../parser/spec-from-flags.ts'
import { requireTerminal } from '../../terminal/attach-terminal.ts'

/** If this process is killed, nothing holds the lease of its session, and the session ends after this time. */
const TTL_SECONDS = 60

const { start: _, ...sessionOptions } = SESSION_OPTIONS

export const command: Command = {
  summary: 'Run one command in a temporary session',
  usage: ['[IMAGE] [FLAGS] -- PROGRAM [ARGUMENT]...'],
  about: `Creates a session, runs the program in it, removes the session, and exits with the program's exit code. With --keep the session
stays, and its name is printed on stderr.

stdin is passed on if it is a pipe or a file. Ctrl-C interrupts the program; the third Ctrl-C ends the session. If sandglass itself is
killed, the session ends by itself a minute later.

Exit code: that of the program; 128+n if signal n ended it (137 at the memory limit); 124 after --timeout; 127 if the program does not
exist, 126 if it cannot be executed; 125 if Sandglass failed.`,
  options: {
    'copy-in': {
      type: 'boolean',
      about: 'first copy the current folder into /workspace; the program runs only if every file could be read',
    },
    keep: { type: 'boolean', about: 'keep the session at the end' },
    rm: { type: 'boolean', about: 'remove the session at the end (the default)' },
    ...PROCESS_FLAGS,
    ...sessionOptions,
    env: { type: 'string', short: 'e', multiple: true, value: 'NAME=VALUE', about: 'environment variable' },
  },
  changes: true,
  async run(input, context) {
    const { flags, rest } = input
    const spec = specOf(input)
    if (rest === undefined || rest.length === 0)
      throw usage(`no program to run: write it after --, as in sandglass run -- ${input.args[0] ?? 'ls'}`)
    if (flags.keep && flags.rm) throw usage('give either --keep or --rm, not both')
    if (flags.tty && context.json) throw usage('--json cannot be combined with -t')
    if (flags.tty) requireTerminal()
    const { hasStdin, ...settings } = processSettings(flags)
    const stdin = hasStdin || settings.tty !== undefined
    return commandExitCode(async () => {
      const client = await context.connect()
      if (spec.image !== undefined) await (await import('../image/pull.ts')).pullIfMissing(client, spec.image, context)
      await using created = await createTemporary(client, spec, flags.keep === true, context)
      const { session, earlyExit, release } = created
      noteDifferences(session.info, spec, context)
      if (flags['copy-in']) await copyIn(session, context)
      if (!stdin) noteNoTerminal(rest, context)
      const options = { ...settings, stdin, name: flags.keep ? spec.name : null, earlyExit, onAttached: release }
      return await runProcess(session, [...rest], options, context)
    }, context)
  },
}

function specOf({ args, flags }: Input): SessionOptions & { name: string } {
  const [image, ...more] = args
  if (more.length > 0) {
    // `run debian:12 ls` and `run ls -la` mean different things: an image has a tag, a registry or a digest in its name.
    const isImage = image === 'host' || /^[^./][^ ]*[:/@]/.test(image ?? '')
    const program = isImage ? `${image} -- ${more.join(' ')}` : `-- ${[image, ...more].join(' ')}`
    throw usage(`write -- in front of the program: sandglass run ${program}`)
  }
  const spec = specFromFlags(flags)
  if (image !== undefined && spec.image !== undefined) throw usage('the image is given twice')
  if (flags.keep !== true && spec.ttlSeconds === undefined) spec.ttlSeconds = TTL_SECONDS
  return { ...spec, ...(image === undefined ? {} : { image }), name: spec.name ?? generatedName() }
}

/** The name is chosen here, so that the session can be removed if this process is interrupted while the session is created. */
const generatedName = () => `run-${crypto.randomUUID().slice(0, 8)}`

type TemporarySession = AsyncDisposable & {
  session: Session
  /** Absent for a session that is kept, where the program is killed and the session stays. */
  earlyExit: EarlyExit | undefined
  /** Leaves signals to the program. */
  release: () => void
}

/** Creates a session that is removed at the end, also after a failure or a signal, unless `isKept`. */
async function createTemporary(
  client: SandboxClient,
  spec: SessionOptions & { name: string },
  isKept: boolean,
  context: Context,
): Promise<TemporarySession> {
  const shown = printable(spec.name)
  const remove = () => client.session(spec.name).destroy({ purge: true }).catch(unlessGone)
  const effect = 'ends it'
  const early: EarlyExit = isKept
    ? { effect, message: `interrupted; the session ${shown} stays` }
    : { effect, message: `removing ${shown}`, cleanUp: remove }
  const onInterrupt = () => void exitEarly(INTERRUPTED, early, context)
  const onTerminate = () => void exitEarly(TERMINATED, early, context)
  process.once('SIGINT', onInterrupt).once('SIGTERM', onTerminate)
  const release = () => void process.off('SIGINT', onInterrupt).off('SIGTERM', onTerminate)
  try {
    const session = await createWithProgress(client, spec, context)
    const end = async () => {
      release()
      if (isKept) context.say(`kept the session ${shown}\n`)
      else await remove().catch(context.report) // the exit code stays the program's
    }
    return { session, earlyExit: isKept ? undefined : early, release, [Symbol.asyncDispose]: end }
  } catch (error) {
    release()
    throw error
  }
}

/** The session was removed by someone else, or was not created yet at the interrupt; then its ttl ends it. */
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
