import { defineConfig } from 'vitest/config'
import { SlowFirst } from './tools/test/slow-first.ts'

export default defineConfig({
  test: {
    include: ['packages/*/src/**/*.test.ts', 'test/**/*.test.ts', 'tools/**/*.test.ts', 'bench/**/*.test.ts'],
    globalSetup: ['test/build-runner.ts'],
    // Real processes and sandboxes: a worker is a process of its own, and two of them keep two cores busy.
    pool: 'forks',
    maxWorkers: 2,
    sequence: { sequencer: SlowFirst },
    testTimeout: 30_000,
    hookTimeout: 60_000,
    teardownTimeout: 20_000,
    expect: { poll: { timeout: 10_000 } },
  },
})
