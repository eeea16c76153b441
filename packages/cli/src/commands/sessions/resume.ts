import type { Command } from '../../command.ts'
import { changeCommand } from './change-command.ts'

export const command: Command = {
  ...changeCommand('Continue a paused session', session => session.resume()),
  event: 'resume',
}
