// Starts the egress process. It outlives the daemon; the next one finds it by its control socket.
import { spawn } from 'node:child_process'
import { closeSync, constants, fstatSync, ftruncateSync, openSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { DATA_FILES } from '@sandglass/contract'
import { egressUser } from '../backends/machine/egress-endpoint.ts'
import { isAlive, ProcessState, processState } from '../backends/machine/process-state.ts'
import { readJson, writeJson } from '../lib/json-file.ts'
import { CONTROL_SOCKET_INSIDE, makeEgressFolders } from './folders.ts'

const MAX_LOG_BYTES = 8 * 1024 * 1024
const KILL_WAIT_MS = 2000
/** DNS lookups use these threads; a slow name server must not block the others. */
const THREADS = '16'

// SECURITY: SIGUSR1 would open an inspector, and a diagnostic report contains the environment and parts of the memory.
const NODE_FLAGS = ['--disable-sigusr1', '--no-addons', '--max-semi-space-size=8']

/** SECURITY: a core dump would contain the real values of secrets. */
const WITHOUT_CORE = 'ulimit -c 0 && exec "$0" "$@"'

/** Rejects if the program cannot be started. It listens on the control socket a moment later. */
export async function startProcess(dataDir: string): Promise<ProcessState> {
  const folder = await makeEgressFolders(dataDir)
  const user = egressUser(dataDir)
  const args = [CONTROL_SOCKET_INSIDE, ...(user === null ? [] : [String(user.uid), String(user.gid)])]
  const program = fileURLToPath(import.meta.resolve('@sandglass/egress/main'))
  const log = openLog(join(dataDir, DATA_FILES.egressLog))
  try {
    const child = spawn('/bin/sh', ['-c', WITHOUT_CORE, process.execPath, ...NODE_FLAGS, program, ...args], {
      detached: true,
      cwd: folder,
      stdio: ['ignore', log, log],
      // SECURITY: nothing of the daemon's environment. NODE_OPTIONS or SSLKEYLOGFILE would expose what the process decrypts.
      env: { PATH: '/usr/local/bin:/usr/bin:/bin', LANG: 'C.UTF-8', TZ: 'UTC', UV_THREADPOOL_SIZE: THREADS },
    })
    await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject))
    child.unref()
    const state = child.pid === undefined ? null : processState(child.pid)
    if (state === null) throw new Error('the egress process ended at once')
    await writeJson(stateFile(dataDir), state)
    return state
  } finally {
    closeSync(log)
  }
}

/** Ends the process that the last start left, if it runs: one that does not answer must not keep its sessions and secrets. */
export async function killProcess(dataDir: string): Promise<void> {
  const state = await readJson(stateFile(dataDir), ProcessState)
  const deadline = Date.now() + KILL_WAIT_MS
  while (state !== null && isAlive(state) && Date.now() < deadline) {
    process.kill(state.pid, 'SIGKILL')
    await delay(10)
  }
  await rm(stateFile(dataDir), { force: true })
}

const stateFile = (dataDir: string) => join(dataDir, 'egress.json')

/** What the process prints. It prints little, so a file that has grown too large is cleared at a start. */
function openLog(path: string): number {
  const fd = openSync(path, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
  if (fstatSync(fd).size > MAX_LOG_BYTES) ftruncateSync(fd)
  return fd
}
