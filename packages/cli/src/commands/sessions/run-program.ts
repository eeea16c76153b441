// `run -- PROGRAM`: a session for one program, also for the screen of an agent.
import { type SandboxClient, SandglassError, type Session, type SessionOptions } from '@sandglass/sdk'
import type { Context, Input, Values } from '../../command.ts'
import { commandExitCode, INTERRUPTED, TERMINATED } from '../../exec/exit-codes.ts'
import { type EarlyExit, exitEarly } from '../../exec/interrupts.ts'
import { noteNoTerminal } from '../../exec/notes.ts'
import { processSettings } from '../../exec/process-flags.ts'
import { runProcess } from '../../exec/run-process.ts'
import { printable } from '../../output/printable.ts'
import { createWithProgress } from '../../output/show-progress.ts'
import { noteDifferences, noteWarnings } from '../../output/show-session.ts'
import { usage } from '../../parser/parse.ts'
import { specFromFlags } from '../../parser/spec-from-flags.ts'
import { requireTerminal } from '../../terminal/attach-terminal.ts'

/** If this process is killed, nothing holds the lease of its session, and the session ends after this time. */
const TTL_SECONDS = 60

/** What runs in the session: words of the command line, or what the session itself says. */
export type Program = { argv: readonly string[]; env?: Record<string, string> }

export async function runProgram(
  spec: TemporarySpec,
  programIn: (session: Session) => Promise<Program>,
  flags: Values,
  context: Context,
): Promise<number> {
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
    noteWarnings(session.info, context)
    if (flags['copy-in']) await copyIn(session, context)
    const { argv, env } = await programIn(session)
    if (!stdin) noteNoTerminal(argv, context)
    const options = { ...settings, env, stdin, name: flags.keep ? spec.name : null, earlyExit, onAttached: release }
    return await runProcess(session, [...argv], options, context)
  }, context)
}

export type TemporarySpec = SessionOptions & { name: string }

const DURATION = /^\d+(ms|s|m|h)$/

/** The session of a program: IMAGE is the only argument. */
export function temporarySpec({ args, flags }: Pick<Input, 'args' | 'flags'>): TemporarySpec {
  const [image, ...more] = args
  if (flags.tty && DURATION.test(image ?? '')) throw usage(`-t is for a terminal; the time limit is --timeout ${image}`)
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
  spec: TemporarySpec,
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
