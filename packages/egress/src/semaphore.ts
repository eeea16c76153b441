// A number of places; whoever finds none waits for one, in the order of arrival.

export interface Semaphore {
  /** Resolves with the place, which is given back when it is disposed of. Rejects when the signal aborts. */
  acquire(signal: AbortSignal): Promise<Disposable>
}

export function createSemaphore(places: number): Semaphore {
  const waiting = new Set<() => void>()
  let free = places

  function release(): void {
    free += 1
    const [next] = waiting
    next?.()
  }

  /** Each place is given back once. */
  function place(): Disposable {
    free -= 1
    let isTaken = true
    return {
      [Symbol.dispose]() {
        if (isTaken) release()
        isTaken = false
      },
    }
  }

  return {
    acquire(signal) {
      if (free > 0) return Promise.resolve(place())
      return new Promise((resolve, reject) => {
        const leave = () => {
          waiting.delete(take)
          signal.removeEventListener('abort', onAbort)
        }
        const take = () => {
          leave()
          resolve(place())
        }
        const onAbort = () => {
          leave()
          reject(signal.reason)
        }
        if (signal.aborted) return onAbort()
        waiting.add(take)
        signal.addEventListener('abort', onAbort)
      })
    },
  }
}
