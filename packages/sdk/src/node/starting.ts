// A daemon that is started when the first call finds none.

export type Starting = {
  /** Starts the daemon, one at a time: whoever asks meanwhile waits for the same start. */
  start(signal?: AbortSignal): Promise<void>
  /**
   * Runs `attempt` again after a start when nobody listened. Nothing was sent when a connection is refused, so the same call may follow.
   * A daemon that has answered before is started again after a crash, which leaves its socket behind, and not when somebody stopped it.
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

/** A body can fail with the same codes, of other system calls. */
function missingDaemon(error: unknown): 'stopped' | 'crashed' | undefined {
  const { code, syscall } = error as NodeJS.ErrnoException
  if (syscall !== 'connect') return undefined
  return code === 'ENOENT' ? 'stopped' : code === 'ECONNREFUSED' ? 'crashed' : undefined
}

/** The start goes on for the others that wait for it. */
async function unlessAborted(work: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return work
  signal.throwIfAborted()
  await new Promise<void>((resolve, reject) => {
    const abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
