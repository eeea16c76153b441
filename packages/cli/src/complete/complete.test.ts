import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Context } from '../command.ts'
import { complete } from './complete.ts'

const SESSIONS = ['running', 'paused', 'stopped', 'failed'].map(status => ({ name: `is-${status}`, status }))
const IMAGES = [{ references: ['docker.io/library/debian:12', 'docker.io/me/app:1.0'] }, { references: [] }]

const server = createServer((request, reply) => {
  const items = request.url?.startsWith('/v1/images') ? IMAGES : SESSIONS
  reply.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ items, next_cursor: null }))
})
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sg-complete-'))
  await new Promise<void>(resolve => server.listen(join(folder, 'socket'), resolve))
})
afterAll(async () => {
  server.close()
  await rm(folder, { recursive: true })
})

async function candidates(...words: string[]): Promise<string[]> {
  const lines: string[] = []
  const settings = {
    address: { socketPath: join(folder, 'socket') },
    apiKey: 'key',
    dataDir: folder,
    configPath: '',
    hasListen: false,
  }
  const context: Partial<Context> = { settings: async () => settings, print: line => void lines.push(line) }
  await complete(words, context as Context)
  return lines.map(line => line.trimEnd().split('\t')[0] ?? '')
}

test('a command that changes sessions offers those whose state allows it', async () => {
  expect(await candidates('start', '')).toEqual(['is-stopped', 'is-failed'])
  expect(await candidates('resume', '')).toEqual(['is-paused'])
  expect(await candidates('pause', '')).toEqual(['is-running'])
  expect(await candidates('stop', '')).toEqual(['is-running', 'is-paused'])
  expect(await candidates('start', 'is-failed', '')).toEqual(['is-stopped'])
  expect(await candidates('rm', '')).toHaveLength(SESSIONS.length)
})

test('images are offered where a command takes an image', async () => {
  expect(await candidates('new', '--image', '')).toEqual(['debian:12', 'me/app:1.0'])
  expect(await candidates('new', '--image=deb')).toEqual(['--image=debian:12'])
  expect(await candidates('image', 'inspect', 'm')).toEqual(['me/app:1.0'])
  expect(await candidates('image', 'inspect', 'debian:12', '')).toEqual([])
  expect(await candidates('image', 'rm', '-f', 'debian:12', '')).toEqual(['me/app:1.0'])
  expect(await candidates('image', 'pull', '')).toEqual([])
  expect(await candidates('image', 'r')).toEqual(['rm'])
})

test('a single dash offers the flags', async () => {
  expect(await candidates('exec', 'is-running', '-')).toContain('--timeout')
  expect(await candidates('image', 'build', '-')).toContain('--build-arg')
  expect(await candidates('image', 'build', '-')).not.toContain('--name')
  expect(await candidates('-')).toContain('--json')
})
