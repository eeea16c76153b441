// `sandglass context export`: the files of a context on this machine, as the daemon keeps them.
import { lstat, mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { type ContextInfo, type SandboxClient, SandglassError } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { Omissions } from '../../copy/omissions.ts'
import { Progress } from '../../copy/progress.ts'
import { unpack } from '../../copy/unpack.ts'
import { printable } from '../../output/printable.ts'
import { toJson } from '../../output/show-session.ts'
import { oneArgument, text, usage } from '../../parser/parse.ts'
import { writePrivate } from '../../setup/config-document.ts'

export async function run(input: Input, context: Context): Promise<number> {
  const id = oneArgument(input, 'ID')
  const output = text(input.flags.output)
  if (output === undefined || output === '') throw usage('the folder is missing: -o FOLDER')
  const client = await context.connect()
  const info = await client.contexts.get(id)
  const folder = resolve(output)
  await privateFolder(folder)
  writePrivate(join(folder, 'context.json'), await client.contexts.fileText(id))
  for (const agent of info.agents) await exportState(client, info, agent, folder, context)
  writePrivate(join(folder, 'network-sandbox.log'), await client.contexts.networkLog(id))
  context.print(context.json ? toJson({ id, folder }) : `${printable(folder)}\n`)
  return 0
}

/** SECURITY: names and contents of the archive come from a sandbox; see unpack. Entries that it refuses are named and left out. */
async function exportState(
  client: SandboxClient,
  { id }: ContextInfo,
  agent: ContextInfo['agents'][number],
  folder: string,
  context: Context,
): Promise<void> {
  const target = join(folder, agent)
  await privateFolder(target)
  using progress = new Progress({ isQuiet: context.quiet })
  progress.begin(agent)
  const omissions = new Omissions(progress, context)
  const onSkip = ({ detail }: SandglassError<'ARCHIVE_UNSAFE'>) =>
    omissions.onLeftOut(`${agent}/${detail.entry}: ${detail.issue}`)
  const { onLeftOut, onUnreadable } = omissions
  try {
    const archive = await client.contexts.state(id, agent)
    await unpack(progress.through(archive), target, { onSkip, onLeftOut, onUnreadable })
  } catch (error) {
    // An agent that has ended before it wrote anything has no state.
    if (!(error instanceof SandglassError) || !error.is('FILE_NOT_FOUND')) throw error
  }
}

/** SECURITY: a link in place of the folder is not followed. */
async function privateFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  if (!(await lstat(path)).isDirectory()) throw new SandglassError('NOT_A_DIRECTORY', { path })
}
