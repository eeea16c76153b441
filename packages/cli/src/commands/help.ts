import { styleText } from 'node:util'
import type { Command } from '../command.ts'
import { COMMAND_NAMES, GLOBAL_FLAGS, isCommand, loadCommand } from '../commands.ts'
import { commandHelp, flagLines } from '../help-text.ts'
import { oneArgument, unknownCommand } from '../parse.ts'
import { hanging, textWidth } from '../wrap.ts'

export const command: Command = {
  summary: 'Show help',
  usage: ['[COMMAND]'],
  options: {},
  completes: COMMAND_NAMES,
  async run(input, { print }) {
    if (input.args.length > 0) {
      const name = oneArgument(input, 'COMMAND')
      if (!isCommand(name)) throw unknownCommand(name)
      print(commandHelp(name, await loadCommand(name), process.stdout))
      return 0
    }
    const commands = await Promise.all(COMMAND_NAMES.map(async name => ({ name, ...(await loadCommand(name)) })))
    const title = (text: string) => styleText('bold', text, { stream: process.stdout })
    const width = textWidth(process.stdout)
    print(`Sandboxes for code and coding agents, on your own machine.\n\n${title('Usage')}\n  sandglass COMMAND [FLAGS]\n`)
    print(`\n${title('Commands')}\n`)
    for (const { name, summary } of commands) print(hanging(`  ${name.padEnd(12)}`, summary, width))
    print(`\n${title('Everywhere')}\n${flagLines(GLOBAL_FLAGS, width)}`)
    print(
      '\nStart with   sandglass new demo\nthen         sandglass exec demo -c "uname -a"\nmore about   sandglass help COMMAND\n',
    )
    return 0
  },
}
