import { fileURLToPath } from 'node:url'
import { conformance } from '../conformance/suite.ts'
import { DOCKER } from '../limitations.ts'
import { dockerContext } from './context.fixture.ts'

const starter = fileURLToPath(new URL('./starter.fixture.ts', import.meta.url))
const { options, subject } = await dockerContext()
conformance(
  'docker',
  {
    ...subject,
    patience: 3,
    starter: [process.execPath, starter, JSON.stringify(options)],
  },
  DOCKER,
)
