// QEMU's monitor protocol: one conversation at a time, each begun by giving up the right to know other versions.
import { connectLines } from './json-lines.ts'

const DEADLINE_MS = 10_000

export class MonitorError extends Error {
  override readonly name = 'MonitorError'
}

/** Gives QEMU commands, one after another, and then lets the next one come. */
export async function monitor<T>(
  path: string,
  work: (command: (name: string, args?: object) => Promise<unknown>) => Promise<T>,
  deadlineMs = DEADLINE_MS,
): Promise<T> {
  const signal = AbortSignal.timeout(deadlineMs)
  const lines = await connectLines(path)
  let count = 0
  const command = async (name: string, args: object = {}) => {
    const id = `c${count++}`
    lines.send({ execute: name, arguments: args, id })
    const answer = await lines.next(message => message.id === id, signal)
    if ('error' in answer) throw new MonitorError(`${name}: ${description(answer.error)}`)
    return answer.return
  }
  try {
    await lines.next(message => 'QMP' in message, signal)
    await command('qmp_capabilities')
    return await work(command)
  } finally {
    lines.close()
  }
}

function description(error: unknown): string {
  return typeof error === 'object' && error !== null && 'desc' in error ? String(error.desc) : JSON.stringify(error)
}
