import type { SandboxClient, Session, SessionInfo } from '@sandglass/sdk'
import type { Command, Context, Flag, Values } from './command.ts'
import { usage } from './parse.ts'
import { showState } from './show-session.ts'

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
      try {
        for (const name of names) changed.push(await change(client.session(name), flags, client, context))
      } finally {
        if (changed.length > 0) showState(changed, context, line)
      }
      return 0
    },
  }
}
