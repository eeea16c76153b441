import type { Command } from '../../command.ts'
import { SCRIPTS } from '../../complete/scripts.ts'
import { oneArgument, usage } from '../../parser/parse.ts'

export const command: Command = {
  summary: 'Print a completion script for bash, zsh or fish',
  usage: ['bash|zsh|fish'],
  about: `Completes commands, flags, their values, names of sessions and images, and paths in a session for cp. For this shell, or in its startup file for each:

  bash   source <(sandglass completion bash)
  zsh    source <(sandglass completion zsh)
  fish   sandglass completion fish | source`,
  options: {},
  completes: Object.keys(SCRIPTS),
  async run(input, { print }) {
    const shell = oneArgument(input, 'bash, zsh or fish')
    if (!isShell(shell)) throw usage(`no completion for ${shell}: there is one for bash, one for zsh and one for fish`)
    print(SCRIPTS[shell])
    return 0
  },
}

const isShell = (name: string): name is keyof typeof SCRIPTS => Object.hasOwn(SCRIPTS, name)
