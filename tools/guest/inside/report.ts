// Says how it went, on stdout, which is the guest's serial line.
import { MARK, type Result } from '../boot.ts'

export function report(result: Result): void {
  process.stdout.write(`\n${MARK}${JSON.stringify(result)}\n`)
}

export async function attempt(suite: string, title: string, work: () => Promise<void>): Promise<void> {
  const began = performance.now()
  const error = await work().then(
    () => null,
    (error: unknown) => (error instanceof Error ? (error.stack ?? error.message) : String(error)),
  )
  report({ suite, title, error, ms: Math.round(performance.now() - began) })
}
