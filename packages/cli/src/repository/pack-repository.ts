// A local git repository as a bundle: what is committed, with its history.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { usage } from '../parser/parse.ts'
import { GitError, git, gitOrNothing, isPartialClone, type Repository, withoutFilters } from './git.ts'
import { temporaryFolder } from './temporary-folder.ts'

export type PackedRepository = AsyncDisposable & {
  /** The bundle. */
  path: string
  /** Changes that are not committed, and so not in the bundle. */
  uncommitted: number
}

/** Packs HEAD of the repository. The bundle is removed at the end. */
export async function packRepository(repository: Repository): Promise<PackedRepository> {
  const { path } = repository
  if (await isPartialClone(repository))
    throw usage(`--repo ${path} is a partial clone, which cannot be sent`, 'clone it again without --filter')
  if ((await gitOrNothing(repository, ['rev-parse', '--git-dir'])) === undefined)
    throw usage(`--repo ${path} is not a git repository`, `git init ${path}, then commit what the agent shall see`)
  if ((await gitOrNothing(repository, ['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'])) === undefined)
    throw usage(`--repo ${path} has no commit`, 'commit what the agent shall see')
  if ((await git(repository, ['rev-parse', '--is-shallow-repository'])) === 'true')
    throw usage(`--repo ${path} is a shallow clone, which cannot be sent`, 'git fetch --unshallow')
  const folder = await temporaryFolder()
  try {
    const bundle = join(folder, 'repository.bundle')
    // With the name of the branch, so that the agent sees it; HEAD alone if it is detached.
    const branch = await gitOrNothing(repository, ['symbolic-ref', '--quiet', 'HEAD'])
    await git(repository, ['bundle', 'create', '--quiet', bundle, 'HEAD', ...(branch === undefined ? [] : [branch])])
    return { path: bundle, uncommitted: await uncommittedIn(repository), [Symbol.asyncDispose]: () => remove(folder) }
  } catch (error) {
    await remove(folder)
    throw error
  }
}

/** A bare repository has no files, and so no changes. Changes in submodules do not count: git would run in each of them. */
async function uncommittedIn(repository: Repository): Promise<number> {
  const args = ['status', '--porcelain', '--untracked-files=normal', '--ignore-submodules=all']
  try {
    const changes = await git(repository, args, { env: await withoutFilters(repository) })
    return changes === '' ? 0 : changes.split('\n').length
  } catch (error) {
    if (error instanceof GitError) return 0
    throw error
  }
}

const remove = (folder: string) => rm(folder, { recursive: true, force: true })
