import type { SandboxClient, Session, SessionInfo } from '@sandglass/sdk'
import type { Command, Context, Flag, Values } from '../../command.ts'
import { showState } from '../../output/show-session.ts'
import { UsageError, usage } from '../../parser/parse.ts'

/** A command that changes the state of sessions, one after the other, and prints their new states. */
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
      // A failure does not stop the others; the first one decides the exit code.
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
