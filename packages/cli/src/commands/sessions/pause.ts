import type { Command } from '../../command.ts'
import { changeCommand } from './change-command.ts'

export const command: Command = {
  ...changeCommand('Freeze all processes of a session', session => session.pause()),
  event: 'pause',
}
