import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'
import { conformance } from '../conformance/suite.ts'
import { MICROVM } from '../limitations.ts'
import { openMicrovm } from './backend.ts'
import { removeTestMicrovm, testMicrovm } from './microvm.fixture.ts'

const starter = fileURLToPath(new URL('./starter.fixture.ts', import.meta.url))
const options = await testMicrovm()
afterAll(() => removeTestMicrovm(options))

conformance(
  'microvm',
  {
    open: async () => openMicrovm(options),
    starter: [process.execPath, starter, JSON.stringify(options)],
    allowUnenforced: [],
    patience: 4,
  },
  MICROVM,
)
