import type { SandboxClient, Session, SessionInfo } from '@sandglass/sdk'
import type { Command, Context, Flag, Values } from '../../command.ts'
import { showState } from '../../output/show-session.ts'
import { UsageError, usage } from '../../parser/parse.ts'

/** A command that moves sessions to another state, one after the other, and shows where they are. */
export function changeCommand(
  summary: string,
  change: (session: Session, flags: Values, client: SandboxClient, context: Context) => Promise<SessionInfo>,
  options: Record<string, Flag> = {},
  line?: (info: SessionInfo) => string,
): Command {
  return {
    summary,
    usage: ['NAME...'],
    options,
    completes: 'sessions',
    changes: true,
    async run({ args, rest, flags }, context) {
      const names = [...args, ...(rest ?? [])]
      if (names.length === 0) throw usage('NAME is missing')
      const client = await context.connect()
      const changed: SessionInfo[] = []
      let code = 0
      // One that fails does not keep the others; the first failure decides the exit code.
      for (const name of names) {
        try {
          changed.push(await change(client.session(name), flags, client, context))
        } catch (error) {
          if (names.length === 1 || error instanceof UsageError) throw error
          const failed = await context.report(error)
          code ||= failed
        }
      }
      if (changed.length > 0) showState(changed, names.length > 1, context, line)
      return code
    },
  }
}
