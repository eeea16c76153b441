// `sandglass image ls`.
import type { Context, Input } from '../../command.ts'
import { bytesText } from '../../output/bytes-text.ts'
import { toJson } from '../../output/show-session.ts'
import { table } from '../../output/table.ts'
import { fromNow } from '../../parser/duration.ts'
import { noArguments } from '../../parser/parse.ts'
import { shortId, shortName } from './short-name.ts'

export async function run(input: Input, { connect, json, print, say }: Context): Promise<number> {
  noArguments(input)
  const images = await (await connect()).images.list()
  if (json) print(toJson(images))
  else if (images.length === 0)
    say('no images in the store; the image host is this machine, and `sandglass image pull` adds others\n')
  else {
    const rows = images.flatMap(image =>
      (image.references.length > 0 ? image.references : ['(no name)']).map(name => [
        shortName(name),
        shortId(image.id),
        bytesText(image.sizeBytes),
        fromNow(image.createdAt),
        fromNow(image.lastUsedAt),
      ]),
    )
    print(table(['REFERENCE', 'ID', 'SIZE', 'CREATED', 'USED'], rows, process.stdout))
  }
  return 0
}
