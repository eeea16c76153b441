// What may run the steps of a build.

export const BUILDERS = ['auto', 'session', 'docker'] as const
