// `sandglass image import`: an archive, a folder or stdin.
import { stat } from 'node:fs/promises'
import { SandglassError } from '@sandglass/contract/tables'
import type { BodySource } from '@sandglass/sdk'
import { fileBody } from '@sandglass/sdk/node'
import type { Context, Input } from '../../command.ts'
import { HERE } from '../../copy/endpoint.ts'
import { pack } from '../../copy/pack.ts'
import { Progress } from '../../copy/progress.ts'
import { printable } from '../../output/printable.ts'
import { toJson } from '../../output/show-session.ts'
import { oneArgument, text } from '../../parser/parse.ts'
import { LayerLines } from './layer-lines.ts'
import { shortId, shortName } from './short-name.ts'

export async function run(input: Input, { connect, json, quiet, print }: Context): Promise<number> {
  const path = oneArgument(input, 'PATH')
  const reference = text(input.flags.name)
  const client = await connect()
  using sent = new Progress({ isQuiet: quiet || json })
  const body = await bodyFrom(path, sent)
  using lines = new LayerLines({ quiet: quiet || json })
  const images = await client.images
    .importArchive(body, { reference, onProgress: layer => lines.show(layer) })
    .catch(error => Promise.reject(namingFlag(error)))
  if (json) print(toJson(images))
  else
    for (const { id, references } of images)
      print(`${references.map(name => printable(shortName(name))).join(', ')}  ${shortId(id)}\n`)
  return 0
}

/** Renames the field reference to --name in an error. */
function namingFlag(error: unknown): unknown {
  if (!(error instanceof SandglassError) || !error.is('INVALID_REQUEST') || !error.message.startsWith('reference ')) return error
  const { next, issue } = error.detail
  const detail = { issue: issue.replace(/^reference/, '--name'), ...(next === undefined ? {} : { next: NAME_IT }) }
  return new SandglassError('INVALID_REQUEST', detail, { requestId: error.requestId, cause: error })
}

const NAME_IT = '`sandglass image import PATH --name app:1.0` gives it one'

async function bodyFrom(path: string, sent: Progress): Promise<BodySource> {
  if (path === '-') return sent.through(process.stdin)
  const stats = await stat(path).catch(error => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    throw new SandglassError('FILE_NOT_FOUND', { path, where: HERE }, { cause: error })
  })
  if (!stats.isDirectory()) return await fileBody(path, count => sent.add(count))
  return sent.through(pack(path, () => undefined))
}
