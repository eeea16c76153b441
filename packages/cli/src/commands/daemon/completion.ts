import type { Command } from '../../command.ts'
import { SCRIPTS } from '../../complete/scripts.ts'
import { oneArgument, usage } from '../../parser/parse.ts'

export const command: Command = {
  summary: 'Print a completion script for bash, zsh or fish',
  usage: ['bash|zsh|fish'],
  about: `Completes commands, flags and their values, names of sessions and images, and for cp paths in a session. Run the line for your
shell, or put it into the shell's startup file:

  bash   source <(sandglass completion bash)
  zsh    source <(sandglass completion zsh)
  fish   sandglass completion fish | source`,
  options: {},
  completes: Object.keys(SCRIPTS),
  async run(input, { print }) {
    const shell = oneArgument(input, 'bash, zsh or fish')
    if (!isShell(shell)) throw usage(`no completion for ${shell}: the shells are bash, zsh and fish`)
    print(SCRIPTS[shell])
    return 0
  },
}

const isShell = (name: string): name is keyof typeof SCRIPTS => Object.hasOwn(SCRIPTS, name)
