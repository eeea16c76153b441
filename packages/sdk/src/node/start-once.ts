// Starts the daemon when a call finds none.

export type Starting = {
  /** Starts the daemon. Concurrent callers share one start. */
  start(signal?: AbortSignal): Promise<void>
  /**
   * Starts the daemon and repeats `attempt` when the connection is refused: nothing was sent then. A daemon that has answered before is
   * started again after a crash, which leaves its socket behind, but not after it was stopped.
   */
  around<T>(attempt: () => Promise<T>, signal?: AbortSignal): Promise<T>
}

export function starting(startDaemon: () => Promise<void>): Starting {
  let hasAnswered = false
  let underWay: Promise<void> | undefined
  const start: Starting['start'] = signal => {
    underWay ??= startDaemon().finally(() => {
      underWay = undefined
    })
    return unlessAborted(underWay, signal)
  }
  return {
    start,
    async around(attempt, signal) {
      try {
        const result = await attempt()
        hasAnswered = true
        return result
      } catch (error) {
        const missing = missingDaemon(error)
        if (missing === undefined || (hasAnswered && missing === 'stopped')) throw error
        await start(signal)
        return attempt()
      }
    },
  }
}

/** Only for `connect`: reading a body can fail with the same codes. */
function missingDaemon(error: unknown): 'stopped' | 'crashed' | undefined {
  const { code, syscall } = error as NodeJS.ErrnoException
  if (syscall !== 'connect') return undefined
  return code === 'ENOENT' ? 'stopped' : code === 'ECONNREFUSED' ? 'crashed' : undefined
}

/** Stops waiting when the signal aborts. The start goes on for other callers. */
async function unlessAborted(work: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return work
  signal.throwIfAborted()
  await new Promise<void>((resolve, reject) => {
    const abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
