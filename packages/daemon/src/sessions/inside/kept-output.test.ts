import { expect, it } from 'vitest'
import { daemonFixture } from '../../testing/daemon.fixture.ts'
import { acknowledgedOutput, acknowledgeOutput, attachProcess, startProcess, writeStdin } from './processes.ts'

const COUNT = 400_000
const COUNTED = `${Array.from({ length: COUNT }, (_, i) => i + 1).join('\n')}\n`

async function session() {
  const daemon = await daemonFixture()
  const { id } = await daemon.create()
  const attach = (pid: number, from: { stdout_from?: number } = {}) =>
    attachProcess(daemon.context, id, pid, from, AbortSignal.timeout(30_000))
  return { daemon, context: daemon.context, id, attach }
}

it('a reader that goes away and comes back stores kept output once', async () => {
  const { context, id, attach } = await session()
  const { pid } = await startProcess(context, id, { argv: ['seq', String(COUNT)], keep_output: true })
  let stored = ''
  for (let messagesLeft = 10, hasEnded = false; !hasEnded; messagesLeft = 40) {
    const opened = await attach(pid, { stdout_from: stored.length })
    expect(acknowledgedOutput(opened).stdout).toBeLessThanOrEqual(stored.length)
    for await (const { message, body } of opened.stream) {
      hasEnded = message.type === 'exit'
      if (hasEnded) break
      expect(message.offset).toBe(stored.length)
      for await (const bytes of body) stored += bytes.toString()
      if (messagesLeft % 3 === 0) await acknowledgeOutput(opened, { stdout: stored.length })
      if (messagesLeft-- === 0) break
    }
    opened.close()
  }
  expect(stored === COUNTED).toBe(true)
})

it('what was acknowledged is not sent again', async () => {
  const { context, id, attach } = await session()
  const { pid } = await startProcess(context, id, { argv: ['sh', '-c', 'cat; echo err >&2'], stdin: true, keep_output: true })
  const prompt = '0123456789abcdef'.repeat(2560)
  await writeStdin(context, id, pid, { text: prompt, close: true })
  const first = await attach(pid)
  expect(acknowledgedOutput(first)).toEqual({ stdout: 0, stderr: 0 })
  while ((await first.stream.next())?.type !== 'exit');
  await acknowledgeOutput(first, { stdout: prompt.length, stderr: 4 })
  first.close()
  await expect
    .poll(async () => {
      const again = await attach(pid)
      again.close()
      return acknowledgedOutput(again)
    })
    .toEqual({ stdout: prompt.length, stderr: 4 })
  const last = await attach(pid)
  expect(await last.stream.next()).toMatchObject({ type: 'exit', exit_code: 0 })
  last.close()
})

it('only the daemon itself can ask for kept output', async () => {
  const { daemon, context, id, attach } = await session()
  const { status } = await daemon.call('POST', `/v1/sessions/${id}/processes`, { argv: ['true'], keep_output: true })
  expect(status).toBe(400)
  const { pid } = await startProcess(context, id, { argv: ['true'] })
  const opened = await attach(pid)
  expect(() => acknowledgedOutput(opened)).toThrow(expect.objectContaining({ code: 'RUNNER_LOST' }))
  opened.close()
})
