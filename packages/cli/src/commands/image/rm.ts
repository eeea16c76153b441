// `sandglass image rm`.
import { type ImageRemoved, SandglassError } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { bytesText } from '../../output/bytes-text.ts'
import { printable } from '../../output/printable.ts'
import { toJson } from '../../output/show-session.ts'
import { usage } from '../../parser/parse.ts'

/** A failure does not stop the others; it decides the exit code. */
export async function run({ args, rest, flags }: Input, { connect, json, print, say, report }: Context): Promise<number> {
  const names = [...args, ...(rest ?? [])]
  if (names.length === 0) throw usage('IMAGE is missing')
  const { images } = await connect()
  const removed: ImageRemoved[] = []
  let code = 0
  for (const name of names) {
    try {
      const result = await images.remove(name)
      removed.push(result)
      if (json) continue
      print(`${printable(name)}\n`)
      if (result.removed) say(`${bytesText(result.freedBytes)} freed\n`)
    } catch (error) {
      if (flags.force && error instanceof SandglassError && error.is('IMAGE_NOT_FOUND')) continue
      code = await report(error)
    }
  }
  // If all of them failed, only the errors are printed.
  if (json && (removed.length > 0 || code === 0)) print(toJson(removed))
  return code
}
