import { changeCommand } from '../change-command.ts'
import type { Command } from '../command.ts'

export const command: Command = {
  ...changeCommand('Stop a session and keep its files', session => session.stop()),
  event: 'stop',
}
