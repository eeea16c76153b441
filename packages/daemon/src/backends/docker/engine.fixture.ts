// A private engine for as long as a test file runs. It ends with the pipe to it, whatever becomes of this process.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const PROGRAM = fileURLToPath(new URL('../../../../../tools/docker-engine.ts', import.meta.url))

export interface TestEngine {
  readonly endpoint: string
  readonly folder: string
  stop(): Promise<void>
}

export async function testEngine(...flags: string[]): Promise<TestEngine> {
  const child = spawn(process.execPath, [PROGRAM, ...flags], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [line] = await Promise.race([once(child.stdout, 'data'), ended(child)])
  const { socket, folder } = JSON.parse(String(line)) as { socket: string; folder: string }
  return {
    endpoint: `unix://${socket}`,
    folder,
    stop: async () => {
      child.stdin.end()
      if (child.exitCode === null) await once(child, 'exit')
    },
  }
}

async function ended(child: ChildProcess): Promise<never> {
  await once(child, 'exit')
  throw new Error('the private Docker engine could not be started')
}
