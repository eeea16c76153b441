// The part of the contract that does not load zod.

export * from './errors/sandglass-error.ts'
export * from './errors.ts'
export * from './tables/channels.ts'
export * from './tables/host-files.ts'
export * from './tables/ids.ts'
export * from './tables/lifecycles.ts'
export * from './tables/limit-hit.ts'
export * from './tables/limits.ts'
export * from './tables/megabytes.ts'
export * from './tables/paths.ts'
export * from './tables/signals.ts'
