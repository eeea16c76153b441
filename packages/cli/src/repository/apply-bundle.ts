// Takes the commits of a task into a local repository, as a branch of their own. SECURITY: the bundle comes from a sandbox. These rules hold:
//   Its objects are checked by git (as a server checks a push) before the repository gets them: git checks a bundle that it fetches only
//   since 2.46.
//   Exactly one ref is taken, under a name that is chosen here. No tag, no other branch, no HEAD; nothing is checked out, and a branch that
//   is checked out, or has commits of its own, is not changed.
//   No hook runs, and no address in the commits (a submodule, for instance) is followed.
import { constants, createReadStream } from 'node:fs'
import { mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { LIMITS, SandglassError } from '@sandglass/contract/tables'
import { saveTo } from '@sandglass/sdk/node'
import { usage } from '../parser/parse.ts'
import { GitError, git, gitOrNothing, isPartialClone, type Repository } from './git.ts'
import { temporaryFolder } from './temporary-folder.ts'

export type Applied = {
  /** Name of the branch that has the commits of the task. */
  branch: string
  commits: number
  /** `3 files changed, 10 insertions(+)`, as git says it. */
  changes: string
  /** What the branch can be compared with: the branch that is checked out, or HEAD. */
  base: string
}

/** `branch` is the name of the branch in the bundle. */
export async function applyBundle(
  repository: Repository,
  task: { id: string; branch: string },
  bundle: AsyncIterable<Uint8Array>,
): Promise<Applied> {
  if (await isPartialClone(repository)) throw refused(task.id, 'the repository is a partial clone')
  if ((await gitOrNothing(repository, ['rev-parse', '--git-dir'])) === undefined)
    throw usage(`${repository.path} is not a git repository`)
  const source = `refs/heads/${task.branch}`
  if (!PLAIN_REF.test(source) || (await gitOrNothing(repository, ['check-ref-format', source])) === undefined)
    throw refused(task.id, 'the name of its branch is not valid')
  const folder = await temporaryFolder()
  try {
    const path = join(folder, 'task.bundle')
    await save(path, bundle, task.id)
    await checkObjects(repository, folder, path, task.id)
    await fetchBranch(repository, path, source, task.id)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  return summary(repository, branchOf(task.id))
}

/** The branch of a task in the local repository. */
export const branchOf = (id: string): string => `sandglass/${id}`

/** No character that means something in a refspec. */
const PLAIN_REF = /^refs\/heads\/[A-Za-z0-9][A-Za-z0-9._/-]*$/

async function save(path: string, bundle: AsyncIterable<Uint8Array>, id: string): Promise<void> {
  await using file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600)
  await saveTo(file, limited(bundle, id))
}

async function* limited(source: AsyncIterable<Uint8Array>, id: string): AsyncGenerator<Uint8Array, void, undefined> {
  let bytes = 0
  for await (const piece of source) {
    bytes += piece.length
    if (bytes > LIMITS.upload_bytes.max) throw refused(id, `it is larger than ${LIMITS.upload_bytes.max} bytes`)
    yield piece
  }
}

/** Unpacks the objects into a folder beside the repository, with the checks of a server: broken objects and links are refused. */
async function checkObjects(repository: Repository, folder: string, path: string, id: string): Promise<void> {
  const objects = join(folder, 'objects')
  await mkdir(join(objects, 'pack'), { recursive: true })
  const own = await git(repository, ['rev-parse', '--path-format=absolute', '--git-path', 'objects'])
  const env = { GIT_OBJECT_DIRECTORY: objects, GIT_ALTERNATE_OBJECT_DIRECTORIES: quoted(own) }
  const start = await packStart(path, id)
  try {
    await git(repository, ['index-pack', '--stdin', '--fix-thin', '--strict'], { env, input: createReadStream(path, { start }) })
  } catch (error) {
    if (error instanceof GitError) throw refused(id, error.message)
    throw error
  }
}

/** A path may have a colon, which separates paths in the variable. */
const quoted = (path: string) => JSON.stringify(path)

/** The pack begins after the first empty line of the bundle. */
async function packStart(path: string, id: string): Promise<number> {
  await using file = await open(path)
  const head = Buffer.alloc(MAX_HEAD)
  const { bytesRead } = await file.read(head, 0, MAX_HEAD, 0)
  const text = head.subarray(0, bytesRead).toString('latin1')
  const end = text.indexOf('\n\n')
  if (!/^# v[23] git bundle\n/.test(text) || end < 0) throw refused(id, 'it is not a git bundle')
  return end + 2
}

/** Refs and the commits that the bundle builds upon: a bundle of a task has one ref. */
const MAX_HEAD = 1024 * 1024

async function fetchBranch(repository: Repository, path: string, source: string, id: string): Promise<void> {
  const target = branchOf(id)
  const flags = ['--quiet', '--no-tags', '--no-recurse-submodules', '--no-write-fetch-head', '--no-auto-maintenance']
  try {
    await git(repository, ['fetch', ...flags, path, `${source}:refs/heads/${target}`])
  } catch (error) {
    if (!(error instanceof GitError)) throw error
    const exists = (await gitOrNothing(repository, ['rev-parse', '--verify', '--quiet', `refs/heads/${target}`])) !== undefined
    if (exists)
      throw usage(
        `the branch ${target} exists and was left as it is: it is checked out, or has commits of its own`,
        `git branch -m ${target} OTHER, then sandglass task apply ${id}`,
      )
    throw refused(id, /prerequisite/.test(error.message) ? LACKS_BASE : error.message)
  }
}

const LACKS_BASE = 'it builds upon commits that this repository does not have'

async function summary(repository: Repository, branch: string): Promise<Applied> {
  const current = await gitOrNothing(repository, ['symbolic-ref', '--quiet', '--short', 'HEAD'])
  const base = current ?? 'HEAD'
  const range = (dots: string) => `${current === undefined ? 'HEAD' : `refs/heads/${current}`}${dots}refs/heads/${branch}`
  const [commits, changes] = await Promise.all([
    gitOrNothing(repository, ['rev-list', '--count', range('..')]),
    gitOrNothing(repository, ['diff', '--shortstat', '--no-ext-diff', '--no-textconv', range('...')]),
  ])
  return { branch, base, commits: Number(commits ?? 0), changes: changes?.trim() ?? '' }
}

const refused = (id: string, issue: string) =>
  new SandglassError('ARCHIVE_UNSAFE', {
    entry: `the bundle of ${id}`,
    issue,
    next: `the repository is unchanged; \`sandglass task patch ${id}\` prints the changes as text`,
  })
