import { styleText } from 'node:util'
import type { Command } from '../command.ts'
import { COMMAND_NAMES, GLOBAL_FLAGS, isCommand, loadCommand } from '../commands.ts'
import { commandHelp, flagLines } from '../help-text.ts'
import { unknownCommand } from '../parse.ts'

export const command: Command = {
  summary: 'Show help',
  usage: ['[COMMAND]'],
  options: {},
  completes: COMMAND_NAMES,
  async run({ args: [name] }, { print }) {
    if (name !== undefined) {
      if (!isCommand(name)) throw unknownCommand(name)
      print(commandHelp(name, await loadCommand(name), process.stdout))
      return 0
    }
    const commands = await Promise.all(COMMAND_NAMES.map(async known => ({ known, ...(await loadCommand(known)) })))
    const title = (text: string) => styleText('bold', text, { stream: process.stdout })
    print(
      `Sandboxes for code and coding agents, on your own machine.\n\n${title('Usage')}\n  sandglass COMMAND [FLAGS]\n\n${title('Commands')}\n`,
    )
    for (const { known, summary } of commands) print(`  ${known.padEnd(11)}${summary}\n`)
    print(`\n${title('Everywhere')}\n${flagLines(GLOBAL_FLAGS)}`)
    print('\nStart with:  sandglass new   then   sandglass exec NAME -c "uname -a"\n')
    return 0
  },
}
