// Promise.withResolvers, which Node 20 does not have.
export type Resolvers<T> = {
  promise: Promise<T>
  resolve: (value: T | PromiseLike<T>) => void
  reject: (reason?: unknown) => void
}

/** Promise.withResolvers, which Node 20 does not have. */
export function withResolvers<T>(): Resolvers<T> {
  let resolve: Resolvers<T>['resolve'] = () => undefined
  let reject: Resolvers<T>['reject'] = () => undefined
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { promise, resolve, reject }
}
