import { changeCommand } from '../change-command.ts'
import type { Command } from '../command.ts'

export const command: Command = {
  ...changeCommand('Start a stopped or failed session', session => session.start()),
  event: 'start',
}
