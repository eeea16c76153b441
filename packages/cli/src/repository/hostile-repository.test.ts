// Repositories whose own configuration names programs: none of them may run on this machine.
import { execFileSync } from 'node:child_process'
import { createReadStream, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { applyBundle } from './apply-bundle.ts'
import { packRepository } from './pack-repository.ts'

const ID = 'task_0123456789abcdef'
const BRANCH = `sandglass/${ID}`

let folder: string
let host: string
let ran: string

const git = (repository: string, ...args: string[]) =>
  execFileSync('git', ['-C', repository, '-c', 'user.name=a', '-c', 'user.email=a@example.com', ...args], { encoding: 'utf8' })
const local = () => ({ path: host, env: { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: folder } })
const pack = async () => {
  await using packed = await packRepository(local())
  return packed.uncommitted
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sg-hostile-'))
  host = join(folder, 'host')
  ran = join(folder, 'ran')
  execFileSync('git', ['init', '-q', '-b', 'main', host])
  writeFileSync(join(host, 'a.txt'), 'one\n')
  git(host, 'add', '.')
  git(host, 'commit', '-qm', 'first')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

describe('packing a repository', () => {
  test.each(['clean', 'process'])('runs no %s filter', async kind => {
    for (const name of ['x', 'y=z', 'y.z']) git(host, 'config', `filter.${name}.${kind}`, `touch ${ran}; cat`)
    writeFileSync(join(host, '.git/info/attributes'), 'a.txt filter=x\nb.txt filter=y=z\nc.txt filter=y.z\n')
    for (const name of ['a.txt', 'b.txt', 'c.txt']) writeFileSync(join(host, name), 'two\n')
    git(host, '-c', 'core.attributesFile=/dev/null', 'add', '-N', 'b.txt', 'c.txt')
    rmSync(ran, { force: true })
    expect(await pack()).toBe(3)
    expect(existsSync(ran)).toBe(false)
  })

  test('runs nothing in a submodule', async () => {
    const inner = join(host, 'inner')
    execFileSync('git', ['init', '-q', inner])
    writeFileSync(join(inner, 'q'), 'q')
    git(inner, 'add', '.')
    git(inner, 'commit', '-qm', 'inner')
    git(host, '-c', 'advice.addEmbeddedRepo=false', 'add', 'inner')
    git(host, 'commit', '-qm', 'with a submodule')
    git(inner, 'config', 'filter.x.clean', `touch ${ran}; cat`)
    writeFileSync(join(inner, '.git/info/attributes'), '* filter=x\n')
    writeFileSync(join(inner, 'q'), 'r')
    expect(await pack()).toBe(0)
    expect(existsSync(ran)).toBe(false)
  })

  test.each([
    ['a transport', { url: 'ext::sh -c touch% RAN', uploadpack: 'git-upload-pack' }],
    ['an upload-pack', { url: '/nowhere', uploadpack: 'touch RAN; git-upload-pack' }],
  ])('fetches no missing object with %s of its choice', async (_what, remote) => {
    const blob = git(host, 'rev-parse', 'HEAD:a.txt').trim()
    rmSync(join(host, '.git/objects', blob.slice(0, 2), blob.slice(2)))
    const settings = { ...remote, promisor: 'true' }
    for (const [name, value] of Object.entries(settings)) git(host, 'config', `remote.origin.${name}`, value.replace('RAN', ran))
    git(host, 'config', 'protocol.ext.allow', 'always')
    await expect(pack()).rejects.toThrow('is a partial clone')
    expect(existsSync(ran)).toBe(false)
  })
})

describe('taking the commits of a task', () => {
  const bundle = () => {
    const agent = join(folder, 'agent')
    execFileSync('git', ['clone', '-q', host, agent])
    git(agent, 'checkout', '-qb', BRANCH)
    writeFileSync(join(agent, 'b.txt'), 'two\n')
    git(agent, 'add', '.')
    git(agent, 'commit', '-qm', 'second')
    git(agent, 'bundle', 'create', '-q', join(folder, 'bundle'), `main..${BRANCH}`)
    return createReadStream(join(folder, 'bundle'))
  }

  test('runs no command for the refs of another repository', async () => {
    const commits = bundle()
    const other = join(folder, 'other.git')
    execFileSync('git', ['init', '-q', '--bare', other])
    writeFileSync(join(host, '.git/objects/info/alternates'), `${join(other, 'objects')}\n`)
    git(host, 'config', 'core.alternateRefsCommand', `touch ${ran}; true`)
    expect((await applyBundle(local(), { id: ID, branch: BRANCH }, commits)).commits).toBe(1)
    expect(existsSync(ran)).toBe(false)
  })

  test('runs no transport that stands for the bundle', async () => {
    const commits = bundle()
    git(host, 'config', `url.ext::sh -c touch% ${ran} .insteadOf`, join(tmpdir(), 'sandglass-'))
    git(host, 'config', 'protocol.ext.allow', 'always')
    await expect(applyBundle(local(), { id: ID, branch: BRANCH }, commits)).rejects.toThrow('not allowed')
    expect(existsSync(ran)).toBe(false)
  })
})
