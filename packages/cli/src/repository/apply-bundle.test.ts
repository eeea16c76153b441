import { execFileSync } from 'node:child_process'
import { createReadStream, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { applyBundle } from './apply-bundle.ts'
import { packRepository } from './pack-repository.ts'

const ID = 'task_0123456789abcdef'
const task = { id: ID, branch: `sandglass/${ID}` }
const identity = ['-c', 'user.name=a', '-c', 'user.email=a@example.com']

const local = (path: string) => ({ path, env: { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: folder, GIT_DIR: '/nowhere' } })

let folder: string
let host: string
let agent: string

const git = (repository: string, ...args: string[]) =>
  execFileSync('git', ['-C', repository, ...identity, ...args], { encoding: 'utf8' }).trim()

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sg-repo-'))
  host = join(folder, 'host')
  agent = join(folder, 'agent')
  execFileSync('git', ['init', '-q', '-b', 'main', host])
  writeFileSync(join(host, 'a.txt'), 'one\n')
  git(host, 'add', '.')
  git(host, 'commit', '-qm', 'first')
  await using packed = await packRepository(local(host))
  execFileSync('git', ['clone', '-q', packed.path, agent])
  git(agent, 'checkout', '-qb', task.branch)
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** The bundle that a task would have: the commits of its branch on top of main. */
function bundleOf(range = `main..${task.branch}`) {
  const path = join(folder, `${Math.random()}.bundle`)
  git(agent, 'bundle', 'create', '-q', path, range)
  return opened(path)
}

/** The file is opened at the first read: a bundle may be refused before it is read. */
async function* opened(path: string) {
  yield* createReadStream(path)
}

function commitInAgent(name = 'b.txt', content = 'two\n') {
  writeFileSync(join(agent, name), content)
  git(agent, 'add', '.')
  git(agent, 'commit', '-qm', `add ${name}`)
}

test('the commits of a task become a branch, and the files of the user stay as they are', async () => {
  commitInAgent()
  writeFileSync(join(host, 'a.txt'), 'changed by the user\n')
  const hook = join(folder, 'hook-ran')
  for (const name of ['reference-transaction', 'post-checkout', 'post-merge', 'update'])
    writeFileSync(join(host, '.git/hooks', name), `#!/bin/sh\ntouch ${hook}\n`, { mode: 0o755 })
  expect(await applyBundle(local(host), task, bundleOf())).toEqual({
    branch: task.branch,
    base: 'main',
    commits: 1,
    changes: '1 file changed, 1 insertion(+)',
  })
  expect(git(host, 'symbolic-ref', 'HEAD')).toBe('refs/heads/main')
  expect(readFileSync(join(host, 'a.txt'), 'utf8')).toBe('changed by the user\n')
  expect(git(host, 'show', `${task.branch}:b.txt`)).toBe('two')
  expect(existsSync(join(host, '.git/FETCH_HEAD'))).toBe(false)
  expect(existsSync(hook)).toBe(false)
  expect(await applyBundle(local(host), task, bundleOf())).toMatchObject({ commits: 1 }) // once more is the same as once
})

test('a bundle with more refs gives exactly its branch', async () => {
  commitInAgent()
  git(agent, 'tag', 'evil')
  git(agent, 'branch', '-f', 'main', task.branch)
  const before = git(host, 'rev-parse', 'main')
  await applyBundle(local(host), task, bundleOf('--all'))
  expect(git(host, 'for-each-ref', '--format=%(refname)').split('\n')).toEqual(['refs/heads/main', `refs/heads/${task.branch}`])
  expect(git(host, 'rev-parse', 'main')).toBe(before)
})

test.each(['../../hooks/x', 'main:refs/heads/main', '*', '-x', 'a..b', 'x.lock', '+main', ''])(
  'the branch name %j is refused',
  async branch => {
    commitInAgent()
    await expect(applyBundle(local(host), { id: ID, branch }, bundleOf())).rejects.toThrow('the name of its branch is not valid')
    expect(git(host, 'for-each-ref', '--format=%(refname)')).toBe('refs/heads/main')
  },
)

test('a commit with a hostile tree never reaches the repository', async () => {
  const blob = execFileSync('git', ['-C', agent, 'hash-object', '-w', '--stdin'], { input: '[core]\n', encoding: 'utf8' }).trim()
  const entry = Buffer.concat([Buffer.from('100644 .git\0'), Buffer.from(blob, 'hex')])
  const tree = execFileSync('git', ['-C', agent, 'hash-object', '-w', '-t', 'tree', '--literally', '--stdin'], {
    input: entry,
    encoding: 'utf8',
  }).trim()
  const commit = git(agent, 'commit-tree', tree, '-p', 'main', '-m', 'hostile')
  git(agent, 'update-ref', `refs/heads/${task.branch}`, commit)
  await expect(applyBundle(local(host), task, bundleOf())).rejects.toThrow("contains '.git'")
  expect(() => git(host, 'cat-file', '-e', commit)).toThrow()
})

test('a branch with commits of the user is left as it is', async () => {
  commitInAgent()
  await applyBundle(local(host), task, bundleOf())
  const own = git(host, 'commit-tree', `${task.branch}^{tree}`, '-p', task.branch, '-m', 'mine')
  git(host, 'update-ref', `refs/heads/${task.branch}`, own)
  commitInAgent('c.txt')
  await expect(applyBundle(local(host), task, bundleOf())).rejects.toThrow('was left as it is')
  expect(git(host, 'rev-parse', task.branch)).toBe(own)
})

test('what is not a bundle, or belongs to another repository, is refused', async () => {
  const text = join(folder, 'text')
  writeFileSync(text, 'no bundle')
  await expect(applyBundle(local(host), task, createReadStream(text))).rejects.toThrow('it is not a git bundle')
  commitInAgent()
  const other = join(folder, 'other')
  execFileSync('git', ['init', '-q', other])
  await expect(applyBundle(local(other), task, bundleOf())).rejects.toThrow('the bundle of')
  await expect(applyBundle(local(folder), task, bundleOf())).rejects.toThrow('is not a git repository')
})

test('a repository is packed without what is not committed, and refused without a commit', async () => {
  writeFileSync(join(host, 'new.txt'), 'x')
  writeFileSync(join(host, 'a.txt'), 'y')
  await using packed = await packRepository(local(host))
  expect(packed.uncommitted).toBe(2)
  expect(git(host, 'bundle', 'list-heads', packed.path)).toContain('refs/heads/main')
  const empty = join(folder, 'empty')
  execFileSync('git', ['init', '-q', empty])
  await expect(packRepository(local(empty))).rejects.toThrow('has no commit')
  await expect(packRepository(local(folder))).rejects.toThrow('is not a git repository')
})
