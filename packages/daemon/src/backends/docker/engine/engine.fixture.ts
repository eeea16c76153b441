// A private engine for one test file. It ends when the pipe to it closes, even if this process is killed.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type Docker from 'dockerode'
import { until } from '../../conformance/subject.ts'

const PROGRAM = fileURLToPath(new URL('../../../../../../tools/docker-engine.ts', import.meta.url))

export interface TestEngine {
  readonly endpoint: string
  readonly folder: string
  /** Kills the engine and waits until it has been restarted. */
  restart(): Promise<void>
  /** Makes the engine accept calls without answering, until the returned function is called. */
  hang(): () => void
  stop(): Promise<void>
}

export async function testEngine(...flags: string[]): Promise<TestEngine> {
  const child = spawn(process.execPath, [PROGRAM, ...flags], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [line] = await Promise.race([once(child.stdout, 'data'), ended(child)])
  const { socket, folder } = JSON.parse(String(line)) as { socket: string; folder: string }
  return {
    endpoint: `unix://${socket}`,
    folder,
    restart: async () => {
      const pid = Number(await readFile(join(folder, 'docker.pid'), 'utf8'))
      process.kill(pid, 'SIGKILL')
      const { default: Docker } = await import('dockerode')
      const engine = new Docker({ socketPath: socket })
      await until('the engine is back', async () => ![pid, Number.NaN].includes(await running(engine, folder)), 30_000)
    },
    hang: () => {
      const pid = Number(readFileSync(join(folder, 'docker.pid'), 'utf8'))
      process.kill(pid, 'SIGSTOP')
      return () => void process.kill(pid, 'SIGCONT')
    },
    stop: async () => {
      child.stdin.end()
      if (child.exitCode === null) await once(child, 'exit')
    },
  }
}

/** The pid in the engine's pid file if the engine answers, else NaN. */
async function running(engine: Docker, folder: string): Promise<number> {
  try {
    await engine.ping()
    return Number(await readFile(join(folder, 'docker.pid'), 'utf8'))
  } catch (error) {
    if (error instanceof Error) return Number.NaN
    throw error
  }
}

async function ended(child: ChildProcess): Promise<never> {
  await once(child, 'exit')
  throw new Error('the private Docker engine could not be started')
}
