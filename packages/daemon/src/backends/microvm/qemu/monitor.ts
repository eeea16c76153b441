// Client of QEMU's monitor protocol (QMP). QEMU serves one connection at a time; each begins with qmp_capabilities.
import { connectLines } from './json-lines.ts'

const DEADLINE_MS = 10_000

export class MonitorError extends Error {
  override readonly name = 'MonitorError'
}

/** Opens a connection for `work`, which sends commands one after another, and closes it at the end. */
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
