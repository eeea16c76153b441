// A git repository goes into a task, and what its agent changed comes out as a patch and a branch.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SCRIPTED_VERSION } from '../../../packages/daemon/src/agents/testing/scripted-registry.fixture.ts'
import { bashRegistry } from './scripted-agent.ts'
import { startTasks, type TaskDaemon } from './task-daemon.ts'

let tasks: TaskDaemon
const stack = new AsyncDisposableStack()
const folder = mkdtempSync(join(tmpdir(), 'sg-repository-'))
const git = (...args: string[]) => execFileSync('git', args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

beforeAll(async () => {
  const registry = stack.use(await bashRegistry())
  tasks = stack.use(await startTasks({ agents: { registry: registry.url, versions: { claude: SCRIPTED_VERSION } } }))
  git('init', '-q', '-b', 'main')
  git('config', 'user.name', 'Somebody')
  git('config', 'user.email', 'somebody@example.com')
  writeFileSync(join(folder, 'README'), 'first\n')
  git('add', '.')
  git('commit', '-qm', 'first')
  stack.defer(() => rmSync(folder, { recursive: true, force: true }))
}, 60_000)
afterAll(() => stack.disposeAsync())

async function upload(): Promise<string> {
  git('bundle', 'create', '-q', 'repository.bundle', 'HEAD', 'main')
  const reply = await tasks.daemon.call('POST', '/v1/uploads', readFileSync(join(folder, 'repository.bundle')))
  rmSync(join(folder, 'repository.bundle'))
  expect(reply.status).toBe(201)
  return reply.json().id
}

describe('a task with a repository', { timeout: 60_000 }, () => {
  test('gives back commits and uncommitted changes as a branch and a patch', async () => {
    const prompt = `init; git log --oneline >&2; echo second >> README; git commit -qam second
      printf '\\0\\1binary' > new.bin; echo x > 'name with spaces'; result done`
    const task = await tasks.run({ agent: 'claude', prompt, repository: { upload: await upload() } })
    expect(task).toMatchObject({ outcome: 'SUCCESS', has_patch: true, branch: `sandglass/${task.id}` })
    const bundle = await tasks.daemon.call('GET', `/v1/tasks/${task.id}/bundle`)
    writeFileSync(join(folder, 'result.bundle'), bundle.body)
    git('fetch', '-q', 'result.bundle', `refs/heads/${task.branch}:refs/heads/result`)
    rmSync(join(folder, 'result.bundle'))
    expect(git('log', '--format=%s', 'main..result').trim().split('\n')).toHaveLength(2)
    expect(git('diff', '--name-only', 'main', 'result').trim().split('\n')).toEqual(['README', 'name with spaces', 'new.bin'])
    const patch = await tasks.daemon.call('GET', `/v1/tasks/${task.id}/patch`)
    git('checkout', '-q', '-b', 'patched')
    execFileSync('git', ['apply', '--index', '-'], { cwd: folder, input: patch.body })
    expect(git('diff', '--cached', 'result')).toBe('')
    git('reset', '-q', '--hard')
    git('checkout', '-q', 'main')
  })

  test('that changes nothing has no patch', async () => {
    const task = await tasks.run({ agent: 'claude', prompt: 'init; result done', repository: { upload: await upload() } })
    expect(task).toMatchObject({ outcome: 'SUCCESS', has_patch: false })
    const reply = await tasks.daemon.call('GET', `/v1/tasks/${task.id}/patch`)
    expect([reply.status, reply.json().error.code]).toEqual([409, 'TASK_HAS_NO_RESULT'])
  })

  test('goes on with the work of the task before it in the same context', async () => {
    const context = 'repository'
    await tasks.run({
      agent: 'claude',
      prompt: 'init; echo one > one; result x',
      context,
      repository: { upload: await upload() },
    })
    const task = await tasks.run({
      agent: 'claude',
      prompt: 'init; cat one > two; result x',
      context,
      repository: { upload: await upload() },
    })
    const patch = await tasks.daemon.call('GET', `/v1/tasks/${task.id}/patch`)
    expect(patch.body.toString()).toMatch(/\+\+\+ b\/one[\s\S]*\+\+\+ b\/two/)
    const without = await tasks.run({ agent: 'claude', prompt: 'init; echo 3 > three; result x', context, check: 'touch junk' })
    expect(without).toMatchObject({ has_patch: true, check_exit_code: 0 })
    const names = (await tasks.daemon.call('GET', `/v1/tasks/${without.id}/patch`)).body.toString().match(/^\+\+\+ b\/.*$/gm)
    expect(names).toEqual(['+++ b/one', '+++ b/three', '+++ b/two'])
  })

  test('whose upload is no bundle, or is gone, does not start its agent', async () => {
    const garbage = (await tasks.daemon.call('POST', '/v1/uploads', Buffer.from('no bundle'))).json().id
    expect(await tasks.run({ agent: 'claude', prompt: 'init; result x', repository: { upload: garbage } })).toMatchObject({
      outcome: 'CONTAINER_FAILED',
      reason: 'start_failed',
      error_message: expect.stringContaining('git'),
    })
    const spec = { agent: 'claude', prompt: 'x', repository: { upload: 'upl_0000000000000000' } }
    expect((await tasks.daemon.call('POST', '/v1/tasks', spec)).json().error.code).toBe('UPLOAD_NOT_FOUND')
  })

  test('gets the files of the task, and its environment', async () => {
    const upload = (await tasks.daemon.call('POST', '/v1/uploads', Buffer.from('uploaded'))).json().id
    const files = [
      { path: 'notes/plan.md', text: 'planned', mode: '600' },
      { path: '/workspace/data', upload },
    ]
    const prompt = 'init; say "$(cat notes/plan.md) $(stat -c %a notes/plan.md) $(cat data) $GREETING"; result x'
    const task = await tasks.run({ agent: 'claude', prompt, files, env: { GREETING: 'hello' } })
    expect(task).toMatchObject({ outcome: 'SUCCESS', response_text: 'planned 600 uploaded hello' })
  })
})
