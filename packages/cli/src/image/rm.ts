import { type ImageRemoved, SandglassError } from '@sandglass/sdk'
import type { Context, Input } from '../command.ts'
import { usage } from '../parse.ts'
import { printable } from '../printable.ts'
import { toJson } from '../show-session.ts'
import { bytesText } from './bytes-text.ts'

/** One that fails does not keep the others; its failure decides the exit code. */
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
  // Where all of them failed, the errors are the whole answer.
  if (json && (removed.length > 0 || code === 0)) print(toJson(removed))
  return code
}
