import type { Command } from '../command.ts'
import { SCRIPTS } from '../complete/scripts.ts'
import { oneArgument, usage } from '../parse.ts'

export const command: Command = {
  summary: 'Print a completion script for bash or zsh',
  usage: ['bash|zsh'],
  about: `Completes commands, flags, their values, names of sessions and images, and paths in a session for cp. For this shell, or in its startup file for each:

  bash   source <(sandglass completion bash)
  zsh    source <(sandglass completion zsh)`,
  options: {},
  completes: Object.keys(SCRIPTS),
  async run(input, { print }) {
    const shell = oneArgument(input, 'bash or zsh')
    if (shell !== 'bash' && shell !== 'zsh') throw usage(`no completion for ${shell}: there is one for bash and one for zsh`)
    print(SCRIPTS[shell])
    return 0
  },
}
