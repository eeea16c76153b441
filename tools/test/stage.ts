// One stage of `npm test`: a command whose output is kept in a log and shown when it fails.
import { spawn } from 'node:child_process'
import { createWriteStream, mkdirSync, readFileSync } from 'node:fs'
import { finished } from 'node:stream/promises'
import type { Ran } from '../../test/gates/coverage-rows.ts'

export type Outcome = {
  passed: number
  failed: number
  skips: { title: string; reason: string }[]
  /** Every test of the stage, for the page that names tests. */
  ran: Ran[]
  report: string
}

/** Runs a stage and prints one line about it; a failed stage's report follows. Throwing counts as one failure. */
export async function runStage(name: string, run: () => Promise<Outcome>, isCi: boolean): Promise<Outcome> {
  const start = performance.now()
  const seconds = () => ((performance.now() - start) / 1000).toFixed(1)
  const heartbeat = setInterval(() => console.log(`…    ${name} (${seconds()} s so far)`), isCi ? 30_000 : 10_000)
  const outcome = await run().catch(
    (error: unknown): Outcome => ({
      passed: 0,
      failed: 1,
      skips: [],
      ran: [],
      report: error instanceof Error ? (error.stack ?? '') : String(error),
    }),
  )
  clearInterval(heartbeat)
  const counts = `${outcome.passed} passed${outcome.failed ? `, ${outcome.failed} failed` : ''}${outcome.skips.length ? `, ${outcome.skips.length} skipped` : ''}`
  console.log(`${outcome.failed ? 'FAIL' : 'ok  '} ${name} (${seconds()} s): ${counts}`)
  if (outcome.failed) console.log(indent(outcome.report))
  return outcome
}

/** A check that passes or fails as a whole. */
export async function command(log: string, argv: string[], cwd = '.'): Promise<Outcome> {
  const { code, output } = await capture(log, argv, cwd)
  return { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1, skips: [], ran: [], report: tail(output) }
}

/** A stage that takes longer hangs: it is ended whole, and fails. */
const STAGE_MS = 40 * 60_000

/** Runs a command in a process group of its own, so that nothing of it stays: neither after a hang nor after Ctrl-C. */
export async function capture(log: string, argv: string[], cwd = '.'): Promise<{ code: number; output: string }> {
  mkdirSync('.cache/test', { recursive: true })
  const path = `.cache/test/${log}.log`
  const file = createWriteStream(path)
  const [program = '', ...args] = argv
  const child = spawn(program, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  const end = () => void (child.pid && process.kill(-child.pid, 'SIGKILL'))
  const onSignal = () => {
    end()
    process.exit(130)
  }
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal)
  const tooLong = setTimeout(() => {
    file.write(`\nended after ${STAGE_MS / 60_000} minutes: ${argv.join(' ')}\n`)
    end()
  }, STAGE_MS)
  child.stdout.pipe(file, { end: false })
  child.stderr.pipe(file, { end: false })
  const code = await new Promise<number>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', exit => resolve(exit ?? 1))
  })
  clearTimeout(tooLong)
  process.off('SIGINT', onSignal).off('SIGTERM', onSignal)
  file.end()
  await finished(file)
  return { code, output: readFileSync(path, 'utf8') }
}

export function tail(text: string, lines = 150): string {
  const all = text.trimEnd().split('\n')
  return all.length > lines
    ? `(${all.length - lines} lines more in .cache/test)\n${all.slice(-lines).join('\n')}`
    : all.join('\n')
}

const indent = (text: string) => text.replace(/^/gm, '     ')
