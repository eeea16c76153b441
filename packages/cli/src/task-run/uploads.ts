// What goes to the daemon before a task: the repository of --repo and the files of --file.
import { stat } from 'node:fs/promises'
import type { SandboxClient, TaskOptions } from '@sandglass/sdk'
import { fileBody } from '@sandglass/sdk/node'
import type { Context } from '../command.ts'
import { Progress } from '../copy/progress.ts'
import { printable } from '../output/printable.ts'
import { usage } from '../parser/parse.ts'
import { packRepository } from '../repository/pack-repository.ts'

export type LocalFile = { local: string; path: string }

/** Parses LOCAL:PATH. The colon is the last one, since a local name may have one. */
export function localFile(given: string): LocalFile {
  const at = given.lastIndexOf(':')
  if (at < 1 || at === given.length - 1) throw usage(`--file takes LOCAL:PATH, not ${given}`)
  return { local: given.slice(0, at), path: given.slice(at + 1) }
}

/** Sends files, and returns the fields of the task that name them. */
export async function sendFiles(
  client: SandboxClient,
  files: readonly LocalFile[],
  { quiet }: Context,
): Promise<Pick<TaskOptions, 'files'>> {
  if (files.length === 0) return {}
  using progress = new Progress({ isQuiet: quiet })
  const sent: NonNullable<TaskOptions['files']> = []
  for (const { local, path } of files) {
    const found = await stat(local).catch(error => {
      throw usage(`--file ${local} cannot be read: ${error.message}`)
    })
    if (!found.isFile()) throw usage(`--file ${local} is not a file`, 'send folders with --repo, or with `sandglass cp`')
    progress.begin(local, found.size)
    const { id } = await client.uploads.create(await fileBody(local, bytes => progress.add(bytes)))
    sent.push({ path, upload: id, mode: (found.mode & 0o777).toString(8).padStart(3, '0') })
  }
  return { files: sent }
}

/** Sends what is committed in a repository. */
export async function sendRepository(
  client: SandboxClient,
  path: string | undefined,
  { env, quiet, say }: Context,
): Promise<Pick<TaskOptions, 'repository'>> {
  if (path === undefined) return {}
  await using packed = await packRepository({ path, env })
  const { uncommitted } = packed
  if (uncommitted > 0)
    say(
      `note: ${uncommitted === 1 ? 'one change' : `${uncommitted} changes`} in ${printable(path)} left out, because not committed\n`,
    )
  using progress = new Progress({ isQuiet: quiet })
  const body = await fileBody(packed.path, bytes => progress.add(bytes))
  progress.begin(path, body.size)
  const { id } = await client.uploads.create(body)
  return { repository: { upload: id } }
}
