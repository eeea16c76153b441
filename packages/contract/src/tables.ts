// What can be had without loading zod.
export * from './channels.ts'
export * from './data-files.ts'
export * from './errors.ts'
export * from './ids.ts'
export * from './lifecycles.ts'
export * from './limits.ts'
export * from './paths.ts'
export * from './yaml-issue.ts'
