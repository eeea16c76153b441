// `npm run quickstart`: a first session on a daemon of its own, step by step, with the time each step took.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { SandglassError, type Session } from '@sandglass/sdk'
import { acceptLimits } from './accept-limits.ts'
import { type PrivateDaemon, startPrivateDaemon } from './private-daemon.ts'

const interrupted = new AbortController()
process.stdout.on('error', error => interrupted.abort(error))
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => interrupted.abort(new Error(`stopped by ${signal}`)))

main().catch((error: Error) => {
  const next = error instanceof SandglassError && error.hint ? error.hint : './sandglass doctor says what this machine lacks'
  console.error(`\nquickstart: ${error.message}\n  next: ${next}`)
  process.exitCode = 1
})

async function main(): Promise<void> {
  console.log('Sandglass runs commands in a sandbox on this machine. The sandbox sees your /usr, and none of your files.\n')
  const { daemon, session } = await firstSession()
  try {
    await tour(session)
    await timed('end the session', () => session.destroy())
  } finally {
    const start = performance.now()
    await daemon.stop()
    printTime(start, 'stop the daemon and remove every trace')
  }
  console.log(`\nNext:${acceptLimits(session.info.unenforced)}${NEXT}`)
}

async function tour(session: Session): Promise<void> {
  await run(session, 'cd /tmp && export GREETING=hello')
  await run(session, 'echo "$GREETING from $PWD"', 'the same shell: cd and export are still there')
  await timed('write /workspace/primes.py', () => session.write('/workspace/primes.py', PRIMES))
  await run(session, 'python3 /workspace/primes.py | tee /workspace/primes.txt')
  show(
    await timed('read /workspace/primes.txt', async () => new TextDecoder().decode(await session.read('/workspace/primes.txt'))),
  )
  await run(session, 'whoami; ls /home; tail -n +3 /proc/net/dev | cut -d: -f1', 'no home but its own, no network but loopback')
}

/** Where the host cannot enforce a limit for this user, says so and goes on with exactly those limits allowed to be absent. */
async function firstSession(allowUnenforced: readonly string[] = []): Promise<{ daemon: PrivateDaemon; session: Session }> {
  const daemon = await timed('start a daemon of its own', () =>
    startPrivateDaemon({ allowUnenforced, signal: interrupted.signal }),
  )
  try {
    return { daemon, session: await createSomehow(daemon) }
  } catch (error) {
    await daemon.stop()
    if (!(error instanceof SandglassError) || !error.is('LIMIT_UNENFORCEABLE') || allowUnenforced.length > 0) throw error
    const { limits, why } = error.detail
    const setting = `backends.oci.allow_unenforced: [${limits.join(', ')}]`
    console.log(
      `   note: this user cannot limit ${limits.join(', ')} here (${why}); going on with ${setting} for this demo alone`,
    )
    return firstSession(limits)
  }
}

/** Uses oci, even if it cannot enforce every limit here; `auto` where oci is unavailable. */
async function createSomehow(daemon: PrivateDaemon): Promise<Session> {
  try {
    return await create(daemon, 'oci')
  } catch (error) {
    if (!(error instanceof SandglassError) || !error.is('BACKEND_UNAVAILABLE')) throw error
    console.log(`   note: ${error.detail.why}`)
    return await create(daemon, 'auto')
  }
}

async function create(daemon: PrivateDaemon, backend: 'oci' | 'auto'): Promise<Session> {
  const told = new AbortController()
  const idempotencyKey = randomUUID()
  const telling = tellPreparations(daemon, idempotencyKey, told.signal)
  const made = timed('create a session', () => daemon.client.createSession({ backend }, { idempotencyKey }))
  const session = await made.finally(() => told.abort())
  await telling
  const { name, cpuCores, memoryMb, diskMb, unenforced } = session.info
  show(
    `${name}: ${cpuCores} cores, ${memoryMb} MiB of memory, ${diskMb} MiB of disk${unenforced.length > 0 ? ` (not enforced: ${unenforced.join(', ')})` : ''}`,
  )
  return session
}

async function tellPreparations({ client }: PrivateDaemon, idempotencyKey: string, signal: AbortSignal): Promise<void> {
  let last = ''
  while (!signal.aborted) {
    const step = (await client.preparations({ idempotencyKey }).catch(() => []))[0]?.step ?? ''
    if (step !== last && step !== '') show(step)
    last = step
    await delay(1000, undefined, { signal }).catch(() => undefined)
  }
}

async function run(session: Session, cmd: string, remark = ''): Promise<void> {
  const { output, exitCode } = await timed(`$ ${cmd}`, () => session.exec(cmd))
  show(output)
  if (exitCode !== 0) throw new Error(`\`${cmd}\` ended with ${exitCode}`)
  if (remark) console.log(`            (${remark})`)
}

async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  interrupted.signal.throwIfAborted()
  const start = performance.now()
  const result = await work()
  printTime(start, what)
  return result
}

function printTime(start: number, what: string): void {
  console.log(`${(performance.now() - start).toFixed(1).padStart(8)} ms  ${what}`)
}

function show(text: string): void {
  if (text.trim()) console.log(text.trimEnd().replace(/^/gm, '            '))
}

const PRIMES = `primes = [n for n in range(2, 60) if all(n % d for d in range(2, n))]
print(*primes)
`

const NEXT = `
  ./sandglass new demo                        a session that stays for half an hour after its last use
  ./sandglass exec demo -c 'uname -a'         a command in it
  ./sandglass shell demo                      a terminal in it
  ./sandglass rm -f demo                      its end
  ./sandglass doctor                          what this machine can and cannot do
Then docs/guides/first-session.md, or docs/guides/sdk.md to use it from a program.`
