import type { Command } from '../../command.ts'
import { changeCommand } from './change-command.ts'

export const command: Command = {
  ...changeCommand('Stop a session and keep its files', async (session, _, __, { quiet, say }) => {
    const info = await session.stop()
    if (info.keptUntil !== null && !quiet)
      say(
        `note: the files of ${info.name}, but for /tmp, are kept until ${info.keptUntil}; \`sandglass start ${info.name}\` starts it again\n`,
      )
    return info
  }),
  event: 'stop',
}
