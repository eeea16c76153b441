import type { Command } from '../../command.ts'
import { showPreparations } from '../../output/show-progress.ts'
import { changeCommand } from './change-command.ts'

export const command: Command = {
  ...changeCommand('Start a stopped or failed session', (session, _, client, context) =>
    showPreparations(client, context, session.start()),
  ),
  event: 'start',
}
