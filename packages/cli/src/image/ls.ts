import type { Context, Input } from '../command.ts'
import { fromNow } from '../duration.ts'
import { noArguments } from '../parse.ts'
import { toJson } from '../show-session.ts'
import { table } from '../table.ts'
import { bytesText } from './bytes-text.ts'
import { shortId, shortName } from './short-name.ts'

export async function run(input: Input, { connect, json, print, say }: Context): Promise<number> {
  noArguments(input)
  const images = await (await connect()).images.list()
  if (json) print(toJson(images))
  else if (images.length === 0) say('no images but host, this machine itself; sandglass image pull brings one\n')
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
