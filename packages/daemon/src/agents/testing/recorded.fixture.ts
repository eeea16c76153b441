// For tests: what real agents printed when the stub model played a case, with ids, ports and paths replaced. Each case begins with a line
// that tells its name, the exit code and the error output; an empty line ends it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentName } from '@sandglass/contract'
import type { AgentParser, Conclusion, ParsedEvent, RunEnd } from '../adapters/adapter.ts'

export type Recorded = { name: string; exitCode: number | null; stderr: string; lines: string[] }

export function recorded(agent: AgentName): Recorded[] {
  const text = readFileSync(join(import.meta.dirname, 'recorded', `${agent}.jsonl`), 'utf8')
  return text
    .trimEnd()
    .split('\n\n')
    .map(block => {
      const [head = '{}', ...lines] = block.split('\n')
      const { case: name, exit_code: exitCode, stderr } = JSON.parse(head)
      return { name, exitCode, stderr, lines }
    })
}

/** Feeds a case to a parser. */
export function replay(
  parser: AgentParser,
  { exitCode, stderr, lines }: Recorded,
  end: Partial<RunEnd> = {},
): { events: ParsedEvent[]; end: Conclusion } {
  const events = lines.flatMap(line => parser.line(line, false))
  return { events, end: parser.conclude({ exitCode, stderr, timedOut: false, wasStopped: false, limitHit: null, ...end }) }
}

export function recordedCase(agent: AgentName, name: string): Recorded {
  const found = recorded(agent).find(one => one.name === name)
  if (found === undefined) throw new Error(`${agent} has no recorded case ${name}`)
  return found
}
