import type { Command } from '../command.ts'
import { oneArgument, usage } from '../parse.ts'

/** Both ask `sandglass __complete` with the words so far; candidates come one a line. */
const SCRIPTS = {
  bash: `_sandglass() {
  local IFS=$'\\n' word=\${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=($(compgen -W "$("\${COMP_WORDS[0]}" __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "$word"))
}
complete -o default -F _sandglass sandglass
`,
  zsh: `#compdef sandglass
_sandglass() {
  local -a found
  found=("\${(@f)$("\${words[1]}" __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$found" ]]; then compadd -a found; else _files; fi
}
compdef _sandglass sandglass
`,
} as const

export const command: Command = {
  summary: 'Print a completion script for bash or zsh',
  usage: ['bash|zsh'],
  about: `  bash:  source <(sandglass completion bash)
  zsh:   source <(sandglass completion zsh)`,
  options: {},
  completes: Object.keys(SCRIPTS),
  async run(input, { print }) {
    const shell = oneArgument(input, 'bash or zsh')
    if (shell !== 'bash' && shell !== 'zsh') throw usage(`no completion for ${shell}: there is one for bash and one for zsh`)
    print(SCRIPTS[shell])
    return 0
  },
}
