import { styleText } from 'node:util'
import type { Command } from '../../command.ts'
import { COMMAND_GROUPS, COMMAND_NAMES, GLOBAL_FLAGS, isCommand, loadCommand } from '../../commands.ts'
import { hanging, textWidth } from '../../output/wrap.ts'
import { commandHelp, flagLines, partOf } from '../../parser/help-text.ts'
import { suggestion, unknownCommand, usage } from '../../parser/parse.ts'

export const command: Command = {
  summary: 'Show help',
  usage: ['[COMMAND [ACTION]]'],
  about: 'ACTION is the word after a COMMAND that has several actions, as in: sandglass help image build',
  options: {},
  completes: COMMAND_NAMES,
  async run(input, { print }) {
    if (input.args.length > 0) {
      const [name = '', ...words] = input.args
      if (!isCommand(name)) throw unknownCommand(name)
      print(commandHelp(name, meantBy(name, await loadCommand(name), words), process.stdout))
      return 0
    }
    const title = (text: string) => styleText('bold', text, { stream: process.stdout })
    const width = textWidth(process.stdout)
    print(`Sandboxes for code and coding agents, on your own machine.\n\n${title('Usage')}\n  sandglass COMMAND [FLAGS]\n`)
    for (const group of COMMAND_GROUPS) {
      print(`\n${title(group.title)}\n`)
      for (const name of group.names) print(hanging(`  ${name.padEnd(12)}`, (await loadCommand(name)).summary, width))
    }
    print(`\n${title('Global flags')}\n${flagLines(GLOBAL_FLAGS, width)}`)
    print(
      '\nStart with   sandglass new demo\nthen         sandglass exec demo -c "uname -a"\nread more    sandglass help COMMAND\n',
    )
    return 0
  },
}

/** The command, or the part of it that belongs to the given action. */
function meantBy(name: string, command: Command, [action, ...more]: readonly string[]): Command {
  if (action === undefined) return command
  const actions = Array.isArray(command.completes) ? command.completes : []
  const part = partOf(command, action)
  if (part !== undefined && more.length === 0) return part
  if (part !== undefined || actions.length === 0)
    throw usage(`unexpected argument ${(part ? more : [action, ...more])[0]}: the command takes one COMMAND`)
  const meant = suggestion(action, actions)
  const issue = `${name} has the actions ${actions.join(', ')}${meant ? `; did you mean ${meant}?` : ''}`
  throw usage(issue, `\`sandglass help ${name}\` shows them all`)
}
