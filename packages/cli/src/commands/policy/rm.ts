// `sandglass policy rm`.
import { SandglassError } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { printable } from '../../output/printable.ts'
import { toJson } from '../../output/show-session.ts'
import { usage } from '../../parser/parse.ts'

/** A failure does not stop the others; it decides the exit code. The daemon refuses to remove a policy that is in use. */
export async function run({ args, rest, flags }: Input, { connect, json, print, report }: Context): Promise<number> {
  const names = [...args, ...(rest ?? [])]
  if (names.length === 0) throw usage('NAME is missing')
  const { policies } = await connect()
  const removed: string[] = []
  let code = 0
  for (const name of names) {
    try {
      await policies.remove(name)
      removed.push(name)
      if (!json) print(`${printable(name)}\n`)
    } catch (error) {
      if (flags.force && error instanceof SandglassError && error.is('POLICY_NOT_FOUND')) continue
      code = await report(error)
    }
  }
  // If all of them failed, only the errors are printed.
  if (json && (removed.length > 0 || code === 0)) print(toJson({ removed }))
  return code
}
