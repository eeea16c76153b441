import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Context } from '../command.ts'
import { complete } from './complete.ts'

const SESSIONS = ['running', 'paused', 'stopped', 'failed'].map(status => ({ name: `is-${status}`, status }))
const IMAGES = [{ references: ['docker.io/library/debian:12', 'docker.io/me/app:1.0'] }, { references: [] }]

const POLICIES = ['npm', 'mine'].map(name => ({ name, policy: { description: `for ${name}` } }))
const SECRETS = [{ name: 'token' }, { name: 'agent.claude' }]
const APPROVALS = [
  { id: 'appr_0123456789abcdef', session_name: 'box', method: 'GET', url: 'https://example.com/\u001b[2J', status: 'pending' },
]
const LISTS: Readonly<Record<string, unknown>> = {
  '/v1/images': IMAGES,
  '/v1/policies': POLICIES,
  '/v1/secrets': SECRETS,
  '/v1/approvals': APPROVALS,
}

const server = createServer((request, reply) => {
  const items = LISTS[request.url?.split('?')[0] ?? ''] ?? SESSIONS
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

const candidates = async (...words: string[]) => (await printed(...words)).map(line => line.split('\t')[0] ?? '')

async function printed(...words: string[]): Promise<string[]> {
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
  return lines.map(line => line.trimEnd())
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

test('policies, secrets and approvals are offered where a command takes them', async () => {
  expect(await candidates('new', '--policy', '')).toEqual(['npm', 'mine'])
  expect(await candidates('start', '--secret=to')).toEqual(['--secret=token'])
  expect(await candidates('policy', 'show', 'n')).toEqual(['npm'])
  expect(await candidates('policy', 'set', 'mine', '')).toEqual([':files'])
  expect(await candidates('policy', 'rm', 'npm', '')).toEqual(['mine'])
  expect(await candidates('policy', 'check', 'npm', '')).toEqual([])
  expect(await candidates('policy', 'suggest', 'is-r')).toEqual(['is-running'])
  expect(await candidates('policy', 'use', 'is-r')).toEqual(['is-running'])
  expect(await candidates('policy', 'use', 'is-running', 'npm', '')).toEqual(['mine'])
  expect(await candidates('policy', 'use', 'is-running', '--mode', 'as')).toEqual(['ask'])
  expect(await candidates('secret', 'rotate', '')).toEqual(['token', 'agent.claude'])
  expect(await candidates('secret', 'set', 'token', '--preset', 'git')).toEqual(['github', 'gitlab'])
  expect(await candidates('approval', 'allow', '')).toEqual(['appr_0123456789abcdef'])
  expect(await candidates('approval', 'allow', 'appr_0123456789abcdef', '--policy', '')).toEqual(['npm', 'mine'])
  expect(await candidates('network', 'is-f')).toEqual(['is-failed'])
})

test('what a sandbox asked for is explained without control characters', async () => {
  expect(await printed('approval', 'deny', '')).toEqual(['appr_0123456789abcdef\tbox GET https://example.com/\\x1b[2J'])
})

test('a single dash offers the flags', async () => {
  expect(await candidates('exec', 'is-running', '-')).toContain('--timeout')
  expect(await candidates('image', 'build', '-')).toContain('--build-arg')
  expect(await candidates('image', 'build', '-')).not.toContain('--name')
  expect(await candidates('-')).toContain('--json')
})
