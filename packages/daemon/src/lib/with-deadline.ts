// A deadline for work that cannot be aborted.
/** Settles with the work, or rejects after `ms`. The work itself goes on. */
export function withDeadline<T>(work: Promise<T>, ms: number): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms)
  return Promise.race([work, promise]).finally(() => clearTimeout(timer))
}
