import { fileURLToPath } from 'node:url'
import { conformance } from '../conformance.ts'
import { DOCKER } from '../limitations.ts'
import { dockerWorld } from './world.fixture.ts'

const starter = fileURLToPath(new URL('./starter.fixture.ts', import.meta.url))
const { options, subject } = await dockerWorld()
conformance(
  'docker',
  {
    ...subject,
    patience: 3,
    starter: [process.execPath, starter, JSON.stringify(options)],
  },
  DOCKER,
)
