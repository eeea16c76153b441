import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

// Files that take longer than half a minute, slowest first. A file that is missing here only costs time.
const SLOW = [
  'test/e2e/real-images.test.ts',
  'packages/daemon/src/backends/microvm/microvm.test.ts',
  'packages/daemon/src/backends/docker/docker.test.ts',
  'packages/daemon/src/backends/oci/runsc.test.ts',
  'packages/daemon/src/backends/oci/oci.test.ts',
  'test/e2e/tasks/agents.test.ts',
  'test/e2e/tasks/backends.test.ts',
  'test/e2e/tasks/claude.test.ts',
  'test/e2e/tasks/trouble.test.ts',
  'packages/daemon/src/images/build/session/session-build.test.ts',
  // Before tests of limits, which a busy machine makes slow.
  'test/e2e/network/load.test.ts',
  'test/e2e/network/microvm.test.ts',
  'test/e2e/network/oci.test.ts',
  'test/e2e/network/docker.test.ts',
  'test/e2e/hostile-commands.test.ts',
  'packages/daemon/src/backends/docker/engine/unresponsive-engine.test.ts',
  'packages/daemon/src/sessions/lifecycle/reconcile.test.ts',
  'test/e2e/cli-cp.test.ts',
  'test/e2e/microvm.test.ts',
  'packages/daemon/src/images/build/build.test.ts',
]

/** Starts the slowest test files first, so that no worker is left with a long one at the end. */
class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const index = SLOW.findIndex(path => moduleId.endsWith(path))
      return index === -1 ? SLOW.length : index
    }
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}

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
