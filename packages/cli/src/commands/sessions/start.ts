import type { Command } from '../../command.ts'
import { showProgress } from '../../output/show-progress.ts'
import { changeCommand } from './change-command.ts'

export const command: Command = {
  ...changeCommand('Start a stopped or failed session', (session, _, client, context) =>
    showProgress(client, { session: session.id }, context, session.start()),
  ),
  event: 'start',
}
