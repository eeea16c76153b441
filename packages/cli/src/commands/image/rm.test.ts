import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { SandboxClient } from '@sandglass/sdk'
import { expect, onTestFinished, test } from 'vitest'
import type { Context } from '../../command.ts'
import { run } from './rm.ts'

test('with --json only the error is printed when no image could be removed', async () => {
  const server = createServer((_, reply) => {
    const detail = { image: 'app:1' }
    reply.writeHead(404).end(JSON.stringify({ error: { code: 'IMAGE_NOT_FOUND', message: 'no image app:1', detail } }))
  }).listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  onTestFinished(() => void server.close())
  const client = new SandboxClient({ baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, apiKey: 'key' })
  const printed: string[] = []
  const context: Partial<Context> = {
    json: true,
    connect: async () => client,
    print: text => void printed.push(text),
    report: async () => 4,
  }
  const rm = (force: boolean) => run({ args: ['app:1'], rest: undefined, flags: { force }, argv: ['app:1'] }, context as Context)
  expect(await rm(false)).toBe(4)
  expect(printed).toEqual([])
  expect(await rm(true)).toBe(0)
  expect(printed).toEqual(['[]\n'])
})
