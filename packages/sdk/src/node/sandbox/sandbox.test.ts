import { execFileSync } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ImageBuildError, ProxyError, Sandbox, SandboxError, type TaskEvent } from '../index.ts'
import { refuse, startFixtureDaemon } from './daemon.fixture.ts'
import { END, headerOf } from './tar/write-tar.ts'

let home: string
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'sandglass-sdk-sandbox-'))
})
afterAll(() => rm(home, { recursive: true, force: true }))

const taskOf = (daemon: Awaited<ReturnType<typeof startFixtureDaemon>>, options: object = {}) =>
  new Sandbox({ client: daemon.client }).createTask({ executionContextId: 'mail 17', agent: 'claude', ...options })

const REPLY = { task_id: 't', agent: 'claude', session_id: 'one', is_error: false, response_text: 'first', events: [] }
const CONTEXT = {
  execution_context_id: 'mail 17',
  model: 'small',
  replies: [REPLY, { ...REPLY, agent: 'codex', session_id: 'two' }, { ...REPLY, session_id: null, is_error: true }],
}

test('execute gives the events to its listener and resolves with the result', async () => {
  await using daemon = await startFixtureDaemon()
  const events: TaskEvent[] = []
  const result = await taskOf(daemon, { timeoutSec: 60 }).execute('hello', { model: 'big', onEvent: e => void events.push(e) })
  expect(result).toEqual({
    outcome: 'SUCCESS',
    reason: 'completed',
    sessionId: 'conversation-1',
    responseText: 'done',
    durationMs: 12,
    totalCostUsd: 0.5,
    numTurns: 2,
    isError: false,
    usage: { inputTokens: 3, outputTokens: 4, cacheCreationInputTokens: 0, cacheReadInputTokens: 0 },
    exitCode: 0,
    errorMessage: null,
    taskId: 'task_0123456789abcdef',
  })
  expect(events.map(({ type }) => type)).toEqual(['init', 'text', 'status'])
  expect(daemon.specs()).toEqual([
    { prompt: 'hello', context: 'mail 17', agent: 'claude', model: 'big', timeout_sec: 60, env: {}, secrets: [], policies: [] },
  ])
})

test('sessionId resumes the last conversation, begins one, or names one', async () => {
  await using daemon = await startFixtureDaemon()
  const task = taskOf(daemon)
  await task.execute('a')
  await task.execute('b', { sessionId: null })
  await task.execute('c', { sessionId: 'that-one' })
  const asked = daemon.specs() as { resume?: boolean; agent_session_id?: string }[]
  expect(asked.map(spec => [spec.resume, spec.agent_session_id])).toEqual([
    [undefined, undefined],
    [false, undefined],
    [undefined, 'that-one'],
  ])
})

test('how an agent fails is an outcome, and no error', async () => {
  const failure = { outcome: 'PROMPT_TOO_LONG', reason: 'prompt_too_long', is_error: true, error_message: 'too long' }
  await using daemon = await startFixtureDaemon({ result: failure })
  expect(await taskOf(daemon).execute('x')).toMatchObject({ outcome: 'PROMPT_TOO_LONG', isError: true, errorMessage: 'too long' })
})

test.each([
  ['EGRESS_UNAVAILABLE', ProxyError, 503],
  ['AGENT_KEY_MISSING', SandboxError, 409],
])('a task that is refused with %s is an error with its cause', async (code, expected, status) => {
  await using daemon = await startFixtureDaemon({
    instead: (request, reply) => {
      if (request.method !== 'POST') return false
      refuse(reply, status, code, { agent: 'claude', why: 'x' })
      return true
    },
  })
  const error = await taskOf(daemon)
    .execute('x')
    .catch(error => error)
  expect(error).toBeInstanceOf(expected)
  expect(error).toBeInstanceOf(SandboxError)
  expect(error).toMatchObject({ code, name: expected.name, cause: { code } })
})

test('a task is not reentrant, and stop from elsewhere ends its execution as stopped', async () => {
  await using daemon = await startFixtureDaemon({ runsOn: true })
  const task = taskOf(daemon)
  const running = new Promise<void>(resolve => {
    void task.execute('long', { onEvent: ({ type }) => type === 'text' && resolve() }).then(result => results.push(result))
  })
  const results: unknown[] = []
  await running
  await expect(task.execute('second')).rejects.toBeInstanceOf(SandboxError)
  expect(await Promise.all([task.stop(), task.stop()])).toEqual([true, true])
  await task.settled()
  await expect.poll(() => results).toMatchObject([{ outcome: 'CONTAINER_FAILED', reason: 'stopped' }])
  expect(await task.stop()).toBe(false)
  expect(await task.execute('next')).toMatchObject({ reason: 'stopped' })
})

test('stop before the first execution ends it before it begins', async () => {
  await using daemon = await startFixtureDaemon()
  const task = taskOf(daemon)
  expect(await task.stop()).toBe(false)
  expect(await task.execute('x')).toMatchObject({ outcome: 'CONTAINER_FAILED', reason: 'stopped', taskId: null })
  expect(daemon.specs()).toEqual([])
  expect(await task.execute('x')).toMatchObject({ outcome: 'SUCCESS' })
})

test('stop also ends what another program runs in the context', async () => {
  await using daemon = await startFixtureDaemon({ others: ['task_9999999999999999'] })
  const task = taskOf(daemon)
  expect(await task.stop()).toBe(true)
  expect(daemon.requests.map(({ method, url }) => `${method} ${url}`)).toEqual([
    'GET /v1/tasks?context=mail+17&status=running&limit=200',
    'POST /v1/tasks/task_9999999999999999/stop',
  ])
  expect(await task.execute('x')).toMatchObject({ outcome: 'SUCCESS' })
})

test('an aborted signal, a listener that throws and a shutdown each stop the execution', async () => {
  await using daemon = await startFixtureDaemon({ runsOn: true })
  const sandbox = new Sandbox({ client: daemon.client })
  const task = sandbox.createTask({ executionContextId: 'x' })
  const aborting = new AbortController()
  const onText = (then: () => void) => (event: TaskEvent) => event.type === 'text' && then()
  const aborted = await task.execute('a', { signal: aborting.signal, onEvent: onText(() => aborting.abort()) })
  expect(aborted.reason).toBe('stopped')

  await using other = await startFixtureDaemon({ runsOn: true })
  const throwing = onText(() => {
    throw new RangeError('mine')
  })
  await expect(taskOf(other).execute('b', { onEvent: throwing })).rejects.toThrow(RangeError)

  await using third = await startFixtureDaemon({ runsOn: true })
  const last = new Sandbox({ client: third.client })
  const executed = last.createTask({ executionContextId: 'x' }).execute('c', { onEvent: onText(() => void last.shutdown()) })
  expect((await executed).reason).toBe('stopped')
  await last.shutdown()
  expect(() => last.createTask({ executionContextId: 'x' })).toThrow(SandboxError)
})

test('the session store reads context.json, and a model that is set counts for the next execution', async () => {
  await using daemon = await startFixtureDaemon({ contextFile: CONTEXT })
  const { sessionStore } = taskOf(daemon)
  expect((await sessionStore.load())?.executionContextId).toBe('mail 17')
  expect(await sessionStore.getSessionIdForResume()).toBe('one')
  expect(await sessionStore.getLastSuccessfulResponse()).toBe('first')
  expect(await sessionStore.getModel()).toBe('small')
  const task = taskOf(daemon)
  task.sessionStore.setModel('other')
  expect(await task.sessionStore.getModel()).toBe('other')
  await task.execute('x')
  expect(daemon.specs()).toMatchObject([{ model: 'other' }])

  await using empty = await startFixtureDaemon()
  expect(await taskOf(empty).sessionStore.load()).toBeNull()
  expect(await taskOf(empty).sessionStore.getSessionIdForResume()).toBeNull()
  expect(await taskOf(empty).networkLog.text()).toBe('')
})

test('after each execution the folders of the caller have the state of the context', async () => {
  const source = join(home, 'state')
  await mkdir(join(source, 'projects'), { recursive: true })
  await writeFile(join(source, 'projects/one.jsonl'), '{}\n')
  await symlink('/etc/passwd', join(source, 'link'))
  const state = execFileSync('tar', ['-C', source, '-cf', '-', '.'])
  await using daemon = await startFixtureDaemon({ contextFile: CONTEXT, state })
  const [sessionDir, networkLogDir] = [join(home, 'session'), join(home, 'network')]
  await mkdir(join(sessionDir, 'claude'), { recursive: true })
  await writeFile(join(sessionDir, 'claude/old'), '')
  const task = taskOf(daemon, { sessionDir, networkLogDir })
  await task.execute('x')
  await task.execute('y')
  expect(JSON.parse(await readFile(join(sessionDir, 'context.json'), 'utf8'))).toEqual(CONTEXT)
  expect((await stat(join(sessionDir, 'context.json'))).mode & 0o777).toBe(0o600)
  expect((await readdir(sessionDir)).sort()).toEqual(['claude', 'context.json'])
  expect(await readdir(join(sessionDir, 'claude'))).toEqual(['projects'])
  expect(await readFile(join(sessionDir, 'claude/projects/one.jsonl'), 'utf8')).toBe('{}\n')
  expect(await readFile(join(networkLogDir, 'network-sandbox.log'), 'utf8')).toContain('ALLOWED GET')
})

test('a hostile state leaves the old folder as it is, and the error has the result', async () => {
  const state = Buffer.concat([...headerOf({ name: '../evil', type: 'file', mode: 0o644 }), END])
  await using daemon = await startFixtureDaemon({ contextFile: CONTEXT, state })
  const sessionDir = join(home, 'hostile')
  await mkdir(join(sessionDir, 'claude'), { recursive: true })
  await writeFile(join(sessionDir, 'claude/old'), '')
  const executed = taskOf(daemon, { sessionDir }).execute('x')
  await expect(executed).rejects.toMatchObject({ name: 'SandboxError', result: { outcome: 'SUCCESS' } })
  expect((await readdir(sessionDir)).sort()).toEqual(['claude', 'context.json'])
  expect(await readdir(join(sessionDir, 'claude'))).toEqual(['old'])
})

test('mounts that would hide the state of the agent, or show the session folder, are refused', async () => {
  await using daemon = await startFixtureDaemon()
  await mkdir(join(home, 'shared'))
  await symlink(join(home, 'shared'), join(home, 'other-name'))
  const mount = (target: string, source = home) => ({ mounts: [{ source, target }] })
  for (const target of [
    '/home/sandbox/.claude',
    '/home/sandbox/.claude/projects',
    '/srv/../home/sandbox',
    '/home/sandbox/x/../.claude/',
  ])
    expect(() => taskOf(daemon, mount(target))).toThrow(/state folder/)
  expect(() => taskOf(daemon, mount('/home/sandbox/.claude-other'))).not.toThrow()
  const sessionDir = join(home, 'other-name/not/there')
  expect(() => taskOf(daemon, { ...mount('/data', join(home, 'shared')), sessionDir })).toThrow(/inside the mount/)
  expect(() => taskOf(daemon, { ...mount('/data', join(home, 'shared')), sessionDir: join(home, 'shared-not') })).not.toThrow()
})

test('secrets of a context are stored once, and go before plain variables', async () => {
  await using daemon = await startFixtureDaemon()
  const scopes = ['api.example.com']
  const task = taskOf(daemon, {
    env: { PLAIN: 'a', TOKEN: 'b', AWS_SECRET_ACCESS_KEY: 'c' },
    maskedSecrets: { TOKEN: { value: 'real', scopes, headers: ['x-key'] }, AWS_ACCESS_KEY_ID: { value: 'masked', scopes } },
    signingCredential: { accessKeyId: 'id', secretAccessKey: 'key' },
    networkSandbox: { domains: ['example.com'] },
    policies: ['other'],
  })
  await task.execute('x')
  await task.execute('y')
  const stored = daemon.requests.filter(({ method }) => method === 'PUT').map(({ url, text }) => [url, JSON.parse(text)])
  const digest = stored[0]?.[0].split('.')[1]
  expect(digest).toMatch(/^[0-9a-f]{32}$/)
  expect(stored).toEqual([
    [`/v1/secrets/context.${digest}.TOKEN`, { value: 'real', kind: 'masked', env: 'TOKEN', scopes, headers: ['x-key'] }],
    [`/v1/secrets/context.${digest}.aws-signing`, { value: '{"access_key_id":"id","secret_access_key":"key"}', preset: 'aws' }],
    [`/v1/policies/context-${digest}`, { domains: ['example.com'] }],
  ])
  expect(daemon.specs()[1]).toMatchObject({
    env: { PLAIN: 'a' },
    secrets: [`context.${digest}.TOKEN`, `context.${digest}.aws-signing`],
    policies: ['other', `context-${digest}`],
  })
  expect(JSON.stringify(daemon.specs())).not.toMatch(/real|masked|TOKEN":/)
})

test('startup installs an agent whose version is missing', async () => {
  const agent = (name: string, installed: object[]) => ({ agent: name, version: '2.0.0', installed })
  await using daemon = await startFixtureDaemon({
    instead: (request, reply) => {
      if (request.url === '/v1/agents')
        reply.end(JSON.stringify({ items: [agent('claude', [{ version: '1.0.0' }]), agent('codex', [{ version: '2.0.0' }])] }))
      else if (request.url?.endsWith('/install')) reply.end(`event: done\ndata: ${JSON.stringify({ step: 'done' })}\n\n`)
      else return false
      return true
    },
  })
  const steps: string[] = []
  await new Sandbox({ client: daemon.client }).startup({ agents: ['claude', 'codex'], onProgress: p => void steps.push(p.step) })
  expect(steps).toEqual(['done'])
  expect(daemon.requests.filter(({ method }) => method === 'POST').map(r => [r.url, r.text])).toEqual([
    ['/v1/agents/claude/install', '{"version":"2.0.0"}'],
  ])
})

test('an image that is not built is an ImageBuildError with the output of its step', async () => {
  const folder = join(home, 'image')
  await mkdir(folder)
  await writeFile(join(folder, 'Dockerfile'), 'FROM debian\n')
  await chmod(folder, 0o755)
  let isBroken = false
  await using daemon = await startFixtureDaemon({
    instead: (request, reply) => {
      if (!request.url?.startsWith('/v1/images/build')) return false
      if (isBroken) refuse(reply, 422, 'IMAGE_BUILD_FAILED', { image: 'x', output: ['no such file'] })
      else reply.end(`event: done\ndata: ${JSON.stringify({ image: { id: 'sha256:1' }, cached: false })}\n\n`)
      return true
    },
  })
  const sandbox = new Sandbox({ client: daemon.client })
  expect(await sandbox.ensureImage({ dockerfile: join(folder, 'Dockerfile'), maxAgeSeconds: 60, force: true })).toBe('sha256:1')
  expect(daemon.requests[0]?.url).toContain('?max_age_seconds=60&dockerfile=.sandglass.dockerfile&no_cache=true')
  isBroken = true
  const failed = await sandbox.ensureImage({ dockerfile: join(folder, 'Dockerfile') }).catch(error => error)
  expect(failed).toBeInstanceOf(ImageBuildError)
  expect(failed.output).toEqual(['no such file'])
  await expect(sandbox.ensureImage({ dockerfile: join(folder, 'none') })).rejects.toBeInstanceOf(ImageBuildError)
})

test('a daemon that cannot be reached is a SandboxError everywhere', async () => {
  const daemon = await startFixtureDaemon()
  await daemon[Symbol.asyncDispose]()
  const sandbox = new Sandbox({ client: daemon.client })
  const unreachable = { name: 'SandboxError', code: 'DAEMON_UNREACHABLE' }
  await expect(sandbox.startup()).rejects.toMatchObject(unreachable)
  await expect(sandbox.createTask({ executionContextId: 'x' }).execute('x')).rejects.toMatchObject(unreachable)
  await expect(sandbox.createTask({ executionContextId: 'x' }).stop()).rejects.toMatchObject(unreachable)
  await expect(sandbox.createTask({ executionContextId: 'x' }).sessionStore.load()).rejects.toMatchObject(unreachable)
})
