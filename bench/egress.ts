// HTTPS from a sandbox through the egress process: against a direct connection and against mitmproxy, with the same client and server.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Session } from '@sandglass/sdk'
import { installed } from './support/apt.ts'
import { type Benchmark, type Case, lessIsBetter, moreIsBetter, type Options } from './support/benchmark.ts'
import { run } from './support/command.ts'
import { freePort } from './support/free-port.ts'
import { BENCH_HOST, type HttpsServer, startHttpsServer } from './support/https/server.ts'
import { privateMib } from './support/proc.ts'
import { type Figures, figures, median } from './support/quantiles.ts'
import { type Sandglass, startSandglass } from './support/sandglass.ts'
import { until } from './support/until.ts'

const CLIENT = join(import.meta.dirname, 'support/https/client.mjs')
const GIB = 1024 ** 3
const SMALL = 100
/** The machine's own Node, which is in the sandbox too. */
const NODE = 'node'
const POLICY = 'bench'

export const egress: Benchmark = {
  about: 'keep-alive HTTPS from a sandbox, with interception',
  peer: 'mitmproxy for requests, a direct connection for the download, a session without a policy for the start',
  run: measureEgress,
}

interface Measured {
  readonly whole: number
  readonly each: readonly number[]
}

async function measureEgress({ full, withPeer, signal, say }: Options): Promise<Case[]> {
  await using stack = new AsyncDisposableStack()
  const server = stack.use(await startHttpsServer())
  const config = { egress: { ca_files: [server.caFile], overrides: { [BENCH_HOST]: `127.0.0.1:${server.port}` } } }
  const sandglass = stack.use(await startSandglass({ config }, signal))
  await sandglass.client.policies.set(POLICY, { domains: [BENCH_HOST] })
  const session = await sandglass.client.createSession({ policies: [POLICY], cpuCores: 2, memoryMb: 1024 }, { signal })
  await session.write('/workspace/client.mjs', await readFile(CLIENT, 'utf8'))
  // Before the load, which leaves free memory in the process: idle sessions would take that and seem to cost nothing.
  say('100 idle sessions with a policy')
  const idle = await measureIdle(sandglass, 100, signal)
  const rounds = full ? 50_000 : 10_000
  const mitm = withPeer ? stack.use(await startMitmproxy(server, say, signal)) : null

  const ways = {
    ours: (bytes: number, count: number, at: number) => inSandbox(session, bytes, count, at),
    direct: (bytes: number, count: number, at: number) => onHost(server, bytes, count, at, null, signal),
    ...(mitm && { mitmproxy: (bytes: number, count: number, at: number) => onHost(server, bytes, count, at, mitm, signal) }),
  }
  const results: Record<string, Record<string, Measured>> = {}
  for (const [name, ask] of Object.entries(ways)) {
    say(`${name}: ${rounds} requests, one at once and 16 at once; 1 GiB`)
    results[name] = { one: await ask(SMALL, rounds, 1), many: await ask(SMALL, rounds, 16), large: await ask(GIB, 1, 1) }
  }
  const { ours, direct, mitmproxy } = results
  if (!ours || !direct) throw new Error('nothing was measured')
  const base = median(direct.one?.each ?? [])
  const added = (measured: Measured | undefined): Figures =>
    figures(
      (measured?.each ?? []).map(ms => ms - base),
      { direct_p50: base, direct_p99: figures(direct.one?.each ?? []).p99 },
    )
  const rate = (measured: Measured | undefined, extra = {}) =>
    figures([((measured?.each.length ?? 0) * 1000) / (measured?.whole ?? 1)], extra)
  const speed = (measured: Measured | undefined) => figures([(1024 * 1000) / (measured?.whole ?? 1)])
  say('starts with and without a policy')
  const starts = await measureStarts(sandglass, full ? 100 : 30, signal)
  return [
    moreIsBetter(
      'requests, 16 at once',
      rate(ours.many, { direct: rate(direct.many).p50 }),
      mitmproxy ? rate(mitmproxy.many) : null,
    ),
    moreIsBetter(
      'requests, one at once',
      rate(ours.one, { direct: rate(direct.one).p50 }),
      mitmproxy ? rate(mitmproxy.one) : null,
    ),
    lessIsBetter('added to a direct request', 'ms', added(ours.one), mitmproxy ? added(mitmproxy.one) : null),
    moreIsBetter('download of 1 GiB, in MiB, against direct', speed(ours.large), speed(direct.large)),
    lessIsBetter('start with a policy, against without', 'ms', starts.with, starts.without),
    lessIsBetter('egress process, per idle session', 'MiB', idle, null),
  ]
}

async function inSandbox(session: Session, bytes: number, count: number, concurrency: number): Promise<Measured> {
  const { output, exitCode } = await session.exec(
    `${NODE} /workspace/client.mjs https://${BENCH_HOST}/bytes/${bytes} ${count} ${concurrency} > /workspace/out.json`,
    { timeoutMs: 120_000 },
  )
  if (exitCode !== 0) throw new Error(`the client in the sandbox failed: ${output.slice(0, 500)}`)
  return JSON.parse(await session.readText('/workspace/out.json'))
}

async function onHost(
  server: HttpsServer,
  bytes: number,
  count: number,
  concurrency: number,
  mitm: Mitmproxy | null,
  signal: AbortSignal,
): Promise<Measured> {
  const url = `https://localhost:${server.port}/bytes/${bytes}`
  const trust = `NODE_EXTRA_CA_CERTS=${mitm?.caFile ?? server.caFile}`
  const argv = ['env', trust, NODE, CLIENT, url, String(count), String(concurrency), ...(mitm ? [String(mitm.port)] : [])]
  return JSON.parse((await run(argv, signal)).stdout)
}

interface Mitmproxy extends AsyncDisposable {
  readonly port: number
  readonly caFile: string
}

async function startMitmproxy(server: HttpsServer, say: (line: string) => void, signal: AbortSignal): Promise<Mitmproxy> {
  const { mitmdump } = await installed(['mitmdump'], ['mitmproxy'], say, signal)
  const folder = await mkdtemp(join(tmpdir(), 'sg-mitm-'))
  const port = await freePort()
  const options = [`confdir=${folder}`, `ssl_verify_upstream_trusted_ca=${server.caFile}`, 'stream_large_bodies=1m']
  const child = spawn(
    mitmdump,
    ['-q', '--listen-host', '127.0.0.1', '-p', String(port), ...options.flatMap(option => ['--set', option])],
    { stdio: 'ignore' },
  )
  await until('mitmproxy listens', 30_000, signal, () => accepts(port))
  return {
    port,
    caFile: join(folder, 'mitmproxy-ca-cert.pem'),
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const accepts = (port: number) =>
  new Promise<boolean>(resolve => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })

async function measureStarts({ client }: Sandglass, rounds: number, signal: AbortSignal) {
  const times = { with: [] as number[], without: [] as number[] }
  for (let round = -3; round < rounds; round++) {
    for (const kind of ['with', 'without'] as const) {
      const begin = performance.now()
      const session = await client.createSession(kind === 'with' ? { policies: [POLICY] } : {}, { signal })
      await session.exec('true', { signal })
      if (round >= 0) times[kind].push(performance.now() - begin)
      await session.destroy()
    }
  }
  return { with: figures(times.with), without: figures(times.without) }
}

/** What the egress process grows by. */
async function measureIdle({ client, dataDir }: Sandglass, count: number, signal: AbortSignal): Promise<Figures> {
  const { pid } = JSON.parse(await readFile(join(dataDir, 'egress.json'), 'utf8'))
  const before = await privateMib(pid)
  const sessions: Session[] = []
  for (let i = 0; i < count; i++) {
    const session = await client.createSession({ policies: [POLICY] }, { signal })
    await session.exec(`exec 3<>/dev/tcp/${BENCH_HOST}/443`, { signal })
    sessions.push(session)
  }
  const growth = ((await privateMib(pid)) - before) / count
  for (const session of sessions) await session.destroy()
  return figures([growth])
}
