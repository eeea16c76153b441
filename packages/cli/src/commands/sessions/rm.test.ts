import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { SESSION_NAME } from '@sandglass/contract/tables'
import { SandboxClient } from '@sandglass/sdk'
import { expect, onTestFinished, test } from 'vitest'
import type { Context } from '../../command.ts'
import { command } from './rm.ts'

/** Runs rm against a daemon that has one session, aaa, one that cannot be ended, stuck, and takes names as the real one does. */
async function rm(args: readonly string[], { json = false, force = true } = {}) {
  const server = createServer((request, reply) => {
    const id = request.url?.split('/').at(-1) ?? ''
    const code = !SESSION_NAME.test(id) ? 'INVALID_REQUEST' : id === 'stuck' ? 'INTERNAL' : 'SESSION_NOT_FOUND'
    if (id === 'aaa') reply.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    else reply.writeHead(404).end(JSON.stringify({ error: { code, message: `id ${id}`, detail: { id } } }))
  }).listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  onTestFinished(() => void server.close())
  const client = new SandboxClient({ baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, apiKey: 'key' })
  const told: unknown[] = []
  const printed: string[] = []
  const context: Partial<Context> = {
    json,
    connect: async () => client,
    print: text => void printed.push(text),
    report: async error => told.push(error),
  }
  const code = await command.run({ args, rest: undefined, flags: { force }, argv: args }, context as Context)
  return { code, printed, told }
}

test('with -f an invalid name counts as a missing session, at any position', async () => {
  expect(await rm(['a', 'aaa', 'g', 'nobody', '', 'Box'])).toEqual({ code: 0, printed: ['aaa\n'], told: [] })
})

test('with --json the result is printed unless every removal failed', async () => {
  const printed = async (...names: string[]) => (await rm(names, { json: true })).printed.map(text => JSON.parse(text))
  expect(await printed('stuck')).toEqual([])
  expect(await printed('stuck', 'aaa')).toEqual([{ removed: ['aaa'] }])
  expect(await printed('nobody')).toEqual([{ removed: [] }])
})

test('without -f and a terminal, a missing session is reported before the missing -f', async () => {
  await expect(rm(['nope'], { force: false })).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND', exitCode: 4 })
  await expect(rm(['aaa', 'Nope'], { force: false })).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' })
  await expect(rm(['aaa'], { force: false })).rejects.toThrow('pass -f')
})
