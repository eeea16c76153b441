import { changeCommand } from '../change-command.ts'
import type { Command } from '../command.ts'
import { showPreparations } from '../show-preparations.ts'

export const command: Command = {
  ...changeCommand('Start a stopped or failed session', (session, _, client, context) =>
    showPreparations(client, context, session.start()),
  ),
  event: 'start',
}
