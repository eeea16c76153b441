// `sandglass context rm`.
import { SandglassError } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { printable } from '../../output/printable.ts'
import { toJson } from '../../output/show-session.ts'
import { usage } from '../../parser/parse.ts'
import { confirm } from '../../setup/ask.ts'

export async function run({ args, rest, flags }: Input, { connect, json, print, say, report }: Context): Promise<number> {
  const ids = [...args, ...(rest ?? [])]
  const force = flags.force === true
  if (ids.length === 0) throw usage('ID is missing')
  if (!force) {
    if (!process.stdin.isTTY) throw usage('rm asks for confirmation, and there is no terminal: pass -f')
    const what = ids.length === 1 ? `the context ${printable(ids[0] ?? '')}` : `${ids.length} contexts`
    if (!(await confirm(`Remove ${what} with its session and files?`))) {
      say('nothing was removed\n')
      return 0
    }
  }
  const { contexts } = await connect()
  const removed: string[] = []
  let code = 0
  for (const id of ids) {
    try {
      await contexts.remove(id)
      removed.push(id)
      if (!json) print(`${printable(id)}\n`)
    } catch (error) {
      if (force && error instanceof SandglassError && error.is('CONTEXT_NOT_FOUND')) continue
      code = await report(error)
    }
  }
  if (json && (removed.length > 0 || code === 0)) print(toJson({ removed }))
  return code
}
