import type { Context } from '../command.ts'
import { shortName } from '../commands/image/short-name.ts'
import { askQuietly } from './sessions.ts'

/** The names of the images in the store, as `image ls` shows them. */
export async function imageNames(context: Pick<Context, 'settings'>): Promise<string[]> {
  const found = await askQuietly(context, (client, signal) => client.images.list({ signal }))
  return (found ?? []).flatMap(({ references }) => references.map(shortName))
}
