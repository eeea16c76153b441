// `sandglass image save`: an image as a tar, in a file or on stdout.
import { randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { lstat, rename, rm } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import type { Context, Input } from '../../command.ts'
import { Progress } from '../../copy/progress.ts'
import { bytesText } from '../../output/bytes-text.ts'
import { printable } from '../../output/printable.ts'
import { toJson } from '../../output/show-session.ts'
import { oneArgument, text, usage } from '../../parser/parse.ts'

export async function run(input: Input, { connect, json, quiet, print }: Context): Promise<number> {
  const ref = oneArgument(input, 'IMAGE')
  const path = text(input.flags.output)
  if (path === undefined) throw usage('-o FILE is missing', '`-o -` writes to stdout')
  if (path === '-' && process.stdout.isTTY === true)
    throw usage('the archive would go to the terminal', 'give a file with -o FILE')
  const client = await connect()
  using received = new Progress({ isQuiet: quiet || json })
  const archive = received.through(await client.images.save(ref))
  if (path === '-') {
    await pipeline(archive, process.stdout, { end: false })
    return 0
  }
  await writeFile(path, archive)
  if (json) print(toJson({ path, size_bytes: received.bytes }))
  else if (!quiet) print(`${printable(path)}  ${bytesText(received.bytes)}\n`)
  return 0
}

/** A file appears when it is complete. A device or a pipe is written to as it is. */
async function writeFile(path: string, content: AsyncIterable<Uint8Array>): Promise<void> {
  const isSpecial = await lstat(path).then(
    stats => !stats.isFile(),
    () => false,
  )
  if (isSpecial) return await pipeline(content, createWriteStream(path))
  const building = `${path}.${randomUUID()}.part`
  try {
    await pipeline(content, createWriteStream(building, { flags: 'wx' }))
    await rename(building, path)
  } catch (error) {
    await rm(building, { force: true })
    throw error
  }
}
