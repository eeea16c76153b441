import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'
import { conformance } from '../conformance.ts'
import { openDocker } from './backend.ts'
import { testEngine } from './engine.fixture.ts'

const runnerPath = fileURLToPath(new URL('../../../../../runner/bin/runner', import.meta.url))
const starter = fileURLToPath(new URL('./starter.fixture.ts', import.meta.url))
const engine = await testEngine()
const dataDir = mkdtempSync(join(tmpdir(), 'sandglass-docker-'))
afterAll(async () => {
  await engine.stop()
  rmSync(dataDir, { recursive: true, force: true })
})

const options = { dataDir, runnerPath, endpoint: engine.endpoint }
conformance(
  'docker',
  {
    open: async () => openDocker(options),
    starter: [process.execPath, starter, JSON.stringify(options)],
    allowUnenforced: ['disk'],
    strongest: 'sandbox',
  },
  {
    "a full disk is that session's own": 'a Docker volume has no quota',
    'two machines have different ids on the host': 'without a user namespace there is one id for all',
    'what others do with the same files cannot be watched, and a lock is of one machine alone':
      'the host image is made of bind mounts, which share their inodes',
    'a writable root takes changes that only this machine sees': 'nobody is root, and only root may change what is in the image',
    'root in a writable root cannot move what the next start mounts on': 'nobody is root',
    'a machine that takes every terminal leaves others theirs': 'the engine mounts /dev/pts without a bound of its own',
    'a machine that takes every timer leaves others theirs': 'the kernel counts timers per user, and there is one user for all',
    'a machine that takes every inotify instance leaves others theirs':
      'the kernel counts inotify instances per user, and there is one user for all',
  },
)
