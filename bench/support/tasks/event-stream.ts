// How fast events of a task reach their reader. The agent is a script that prints its own clock, or many lines.
import { readFile } from 'node:fs/promises'
import type { HostAgent } from './by-hand.ts'
import type { TaskDaemon } from './daemon.ts'
import { INIT_LINE, RESULT_LINE, toolLine } from './scripted-agent.ts'

const CLOCK = /\b\d{10}\.\d{6}\b/
const READS = 5

/** The shell reads its clock without starting a program, and writes the line at once. */
const clockLines = (count: number) => `echo '${INIT_LINE}'
for i in $(seq 1 ${count}); do sleep 0.05; printf '${toolLine('%s')}\\n' $EPOCHREALTIME; done
sleep 0.05
echo '${RESULT_LINE}'`

/** Milliseconds from the clock in each line to its arrival with the SDK. */
export async function eventDelays({ client }: TaskDaemon, count: number, signal: AbortSignal): Promise<number[]> {
  const [created] = await client.tasks.create({ agent: 'claude', prompt: clockLines(count) }, { signal })
  const delays: number[] = []
  for await (const event of client.tasks.events(created?.id ?? '', { signal }))
    if (event.type === 'tool_result') delays.push(...delayOf(event.content ?? ''))
  if (delays.length !== count) throw new Error(`${delays.length} of ${count} events came`)
  return delays
}

/** The same from the pipe of the program. */
export async function eventDelaysByHand(agent: HostAgent, count: number, signal: AbortSignal): Promise<number[]> {
  const delays: number[] = []
  await agent.run(clockLines(count), signal, line => delays.push(...delayOf(line)))
  return delays
}

function delayOf(text: string): number[] {
  const now = performance.timeOrigin + performance.now()
  const [clock] = CLOCK.exec(text) ?? []
  return clock === undefined ? [] : [now - Number(clock) * 1000]
}

/** Reads the events of one task several times from the first one, and looks at the memory of the daemon. */
export async function manyEvents({ client, pid }: TaskDaemon, count: number, signal: AbortSignal) {
  const prompt = `echo '${INIT_LINE}'; seq -f '${toolLine('line %.0f of its output')}' ${count}; echo '${RESULT_LINE}'`
  const begin = performance.now()
  const rssIdle = await residentMib(pid)
  const [created] = await client.tasks.create({ agent: 'claude', prompt }, { signal })
  const id = created?.id ?? ''
  const { outcome, events } = await client.tasks.wait(id, { signal })
  if (outcome !== 'SUCCESS' || events < count) throw new Error(`the task ended as ${outcome} with ${events} events`)
  const storedPerSecond = Math.round((events * 1000) / (performance.now() - begin))
  const memory = [await residentMib(pid)]
  const perSecond: number[] = []
  for (let read = 0; read < READS; read++) {
    const started = performance.now()
    let seen = 0
    for await (const _ of client.tasks.events(id, { signal })) seen++
    if (seen !== events) throw new Error(`${seen} of ${events} events came`)
    perSecond.push((seen * 1000) / (performance.now() - started))
    memory.push(await residentMib(pid))
  }
  const rss = { rss_mib_idle: rssIdle, rss_mib_stored: memory[0] ?? 0, rss_mib_read: memory.at(-1) ?? 0 }
  return { perSecond, stored_per_second: storedPerSecond, ...rss }
}

/** Of the daemon. */
async function residentMib(pid: number): Promise<number> {
  const [, kib = '0'] = /VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? []
  return Math.round(Number(kib) / 1024)
}
