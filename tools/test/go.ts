// Runs `go test` and counts its events.
import { capture, type Outcome, tail } from './stage.ts'

type Event = { Action: string; Package?: string; Test?: string; Output?: string }

export async function goTest(): Promise<Outcome> {
  const { code, output } = await capture('go-test', ['go', 'test', '-json', '-count=1', './...'], 'runner')
  const { events, noise } = parse(output)
  const of = (action: string) => events.filter(e => e.Test && e.Action === action)
  const textOf = (event: Event) =>
    events.filter(e => e.Action === 'output' && e.Package === event.Package && e.Test === event.Test).map(e => e.Output ?? '')
  const skips = of('skip').map(e => ({ title: `${e.Package} ${e.Test}`, reason: reasonIn(textOf(e)) }))
  const failures = of('fail')
  const broken = events.filter(e => !e.Test && e.Action === 'fail' && !failures.some(f => f.Package === e.Package))
  const outside = code !== 0 && failures.length + broken.length === 0 ? 1 : 0
  const report = [...[...failures, ...broken].flatMap(textOf), ...noise].join('')
  const ran = [...of('pass'), ...of('skip')].map(e => ({
    file: (e.Package ?? '').replace(/^sandglass\//, ''),
    title: e.Test ?? '',
    passed: e.Action === 'pass',
  }))
  return { ran, passed: of('pass').length, failed: failures.length + broken.length + outside, skips, report: tail(report, 300) }
}

function parse(output: string): { events: Event[]; noise: string[] } {
  const events: Event[] = []
  const noise: string[] = []
  for (const line of output.split('\n')) {
    if (line.startsWith('{')) events.push(JSON.parse(line))
    else if (line) noise.push(`${line}\n`)
  }
  return { events, noise }
}

/** `t.Skip("why")` prints `file.go:12: why`. */
function reasonIn(lines: string[]): string {
  for (const line of lines) {
    const found = /^\s+\S+\.go:\d+: (.+)/.exec(line)
    if (found?.[1]) return found[1]
  }
  return ''
}
