// Tasks: what Sandglass adds to a run of Claude Code, 20 at once, and how events are delivered. The model is a stub that answers at once.
import type { TaskEvent } from '@sandglass/sdk'
import { type Benchmark, type Case, lessIsBetter, moreIsBetter, type Options } from './support/benchmark.ts'
import { type Figures, figures, median } from './support/quantiles.ts'
import { type HandRun, hostAgent } from './support/tasks/by-hand.ts'
import { ANSWER, startClaudeDaemon, startScriptedDaemon, type TaskDaemon } from './support/tasks/daemon.ts'
import { eventDelays, eventDelaysByHand, manyEvents } from './support/tasks/event-stream.ts'

const WARM_UP = 2
const PROMPT = 'hello'
const AT_ONCE = 20

export const task: Benchmark = {
  about: 'a task with Claude Code, and its events',
  peer: 'the same program started by hand on the host, as an ordinary user and with the same model',
  run: measureTask,
}

async function measureTask(options: Options): Promise<Case[]> {
  return [...(await measureClaude(options)), ...(await measureEvents(options))]
}

async function measureClaude({ full, withPeer, signal, say }: Options): Promise<Case[]> {
  await using stack = new AsyncDisposableStack()
  const daemon = stack.use(await startClaudeDaemon(signal))
  say('installing the agent')
  await runTask(daemon, signal)
  const hand = withPeer ? stack.use(await hostAgent(await daemon.program())) : null
  const rounds = full ? 40 : 15
  say(`${rounds} rounds, one task at once`)
  const api: TaskRun[] = []
  const command: number[] = []
  const byHand: HandRun[] = []
  for (let round = -WARM_UP; round < rounds; round++) {
    const hands = await hand?.run(PROMPT, signal)
    const ours = await runTask(daemon, signal)
    const commandMs = await daemon.runCommand(PROMPT, signal)
    await daemon.clean()
    if (round < 0) continue
    if (hands) byHand.push(hands)
    api.push(ours)
    command.push(commandMs)
  }
  const waves = full ? 5 : 2
  say(`${waves} times ${AT_ONCE} at once`)
  const many = { ours: [] as number[], hand: [] as number[] }
  for (let wave = 0; wave < waves; wave++) {
    if (hand) many.hand.push(await wallMs(() => hand.run(PROMPT, signal)))
    many.ours.push(await wallMs(() => runTask(daemon, signal)))
    await daemon.clean()
  }
  const peer = byHand.length > 0 ? byHandFigures(byHand) : null
  const apiMs = api.map(({ wholeMs }) => wholeMs)
  return [
    lessIsBetter('claude, over the API', 'ms', figures(apiMs, { ...more(apiMs, peer), ...phases(api) }), peer),
    lessIsBetter('claude, sandglass run', 'ms', figures(command, more(command, peer)), peer),
    lessIsBetter(`claude, ${AT_ONCE} at once`, 'ms', figures(many.ours), many.hand.length > 0 ? figures(many.hand) : null),
  ]
}

async function measureEvents({ full, withPeer, signal, say }: Options): Promise<Case[]> {
  await using stack = new AsyncDisposableStack()
  const daemon = stack.use(await startScriptedDaemon(signal))
  const lines = full ? 1000 : 200
  say(`${lines} events, one every 50 ms`)
  const delays = await eventDelays(daemon, lines, signal)
  const hand = withPeer ? stack.use(await hostAgent(await daemon.program())) : null
  const byHand = hand ? await eventDelaysByHand(hand, lines, signal) : null
  say('100,000 events of one task')
  const { perSecond, ...memory } = await manyEvents(daemon, 100_000, signal)
  return [
    lessIsBetter('delay of an event', 'ms', figures(delays), byHand && figures(byHand)),
    moreIsBetter('100,000 events from the start', figures(perSecond, memory), null),
  ]
}

interface TaskRun {
  readonly wholeMs: number
  /** Milliseconds of each phase, as the events tell it. */
  readonly phases: Readonly<Record<string, number>>
}

/** From the request to the end of its events. */
async function runTask({ client }: TaskDaemon, signal: AbortSignal): Promise<TaskRun> {
  const begin = performance.now()
  const wallBegin = Date.now()
  const [created] = await client.tasks.create({ agent: 'claude', prompt: PROMPT }, { signal })
  if (!created) throw new Error('no task was created')
  const events: TaskEvent[] = []
  for await (const event of client.tasks.events(created.id, { signal })) events.push(event)
  const wholeMs = performance.now() - begin
  const { outcome, reason, responseText, errorMessage } = await client.tasks.get(created.id, { signal })
  if (outcome !== 'SUCCESS' || responseText !== ANSWER) throw new Error(`the task ended: ${outcome} ${reason} ${errorMessage}`)
  const at = (found: (event: TaskEvent) => boolean) => new Date(events.find(found)?.at ?? 0).getTime()
  const status = (name: string) => at(event => event.type === 'status' && event.status === name)
  const [running, init, result, done] = [status('running'), at(is('init')), at(is('result')), status('done')]
  return {
    wholeMs,
    phases: {
      session: running - wallBegin,
      agent_first_line: init - running,
      agent_lines: result - init,
      finish: done - result,
      end: wallBegin + wholeMs - done,
    },
  }
}

const is = (type: TaskEvent['type']) => (event: TaskEvent) => event.type === type

/** The time until all have ended. */
async function wallMs(run: () => Promise<unknown>): Promise<number> {
  const begin = performance.now()
  await Promise.all(Array.from({ length: AT_ONCE }, run))
  return performance.now() - begin
}

function byHandFigures(runs: readonly HandRun[]): Figures {
  return figures(
    runs.map(({ wholeMs }) => wholeMs),
    {
      agent_first_line: median(runs.map(({ firstLineMs }) => firstLineMs)),
      agent_lines: median(runs.map(({ linesMs }) => linesMs)),
      exit: median(runs.map(({ exitMs }) => exitMs)),
    },
  )
}

const more = (samples: readonly number[], peer: Figures | null): Record<string, number> =>
  peer === null ? {} : { more_than_peer: Math.round(median(samples) - peer.p50) }

/** The median of each phase. */
function phases(runs: readonly TaskRun[]): Record<string, number> {
  const names = Object.keys(runs[0]?.phases ?? {})
  return Object.fromEntries(names.map(name => [name, median(runs.map(run => run.phases[name] ?? 0))]))
}
