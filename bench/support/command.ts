// Runs a program to its end, by argv, and says what it printed when it fails.
import { spawn } from 'node:child_process'
import { once } from 'node:events'

export interface Timed {
  /** Milliseconds from the start to the first byte on stdout; the whole run when nothing was printed. */
  readonly firstOutputMs: number
  readonly wholeMs: number
  readonly stdout: string
}

export async function run(argv: readonly string[], signal: AbortSignal, stdin?: Uint8Array): Promise<Timed> {
  signal.throwIfAborted()
  const [program = '', ...args] = argv
  const begin = performance.now()
  let firstOutputMs: number | undefined
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'], signal })
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => {
    firstOutputMs ??= performance.now() - begin
    stdout.push(chunk)
  })
  child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk))
  // A program that exits without reading its input breaks the pipe; its exit status is what counts.
  child.stdin.on('error', () => undefined)
  child.stdin.end(stdin)
  const [code, killedBy] = await once(child, 'close')
  const wholeMs = performance.now() - begin
  if (code !== 0) {
    throw new Error(`${argv.join(' ')}: ${killedBy ?? `exit ${code}`}\n${Buffer.concat(stderr).toString().trim()}`)
  }
  return { firstOutputMs: firstOutputMs ?? wholeMs, wholeMs, stdout: Buffer.concat(stdout).toString() }
}
