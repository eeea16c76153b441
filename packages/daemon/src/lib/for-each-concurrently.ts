// Works through a list, a few items at a time.

export async function forEachConcurrently<T>(
  items: Iterable<T>,
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = [...items]
  let next = 0
  const worker = async () => {
    while (next < queue.length) await work(queue[next++] as T)
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, queue.length) }, worker))
}
