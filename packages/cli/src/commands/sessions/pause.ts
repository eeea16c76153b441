import type { Command } from '../../command.ts'
import { changeCommand } from './change-command.ts'

export const command: Command = {
  ...changeCommand('Freeze every process of a session', session => session.pause()),
  event: 'pause',
}
