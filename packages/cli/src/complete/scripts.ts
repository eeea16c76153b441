// Each script runs `sandglass __complete` with the words so far. No space is added after a candidate that ends in : / or =, since the user
// continues the word. SECURITY: a sandbox may have chosen the candidates, so they are compared and quoted, never evaluated.

/** bash splits words at : and =. The script joins the pieces by what is in the line, and cuts the part before the last piece off again. */
const BASH = `_sandglass() {
  local line=\${COMP_LINE:0:COMP_POINT} words=() glue= word i
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    if [[ $glue ]]; then words[-1]+=$word; else words+=("$word"); fi
    line=\${line#*"$word"}
    [[ $line && $line != [[:space:]]* ]] && glue=yes || glue=
  done
  local current=\${words[-1]//\\\\/} breaks= cut= found=() files= quoted
  words[-1]=$current
  [[ $COMP_WORDBREAKS == *:* ]] && breaks+=:
  [[ $COMP_WORDBREAKS == *=* ]] && breaks+==
  [[ $breaks ]] && cut=\${current%"\${current##*[$breaks]}"}
  while IFS= read -r line; do
    if [[ $line == :files ]]; then files=yes; else found+=("\${line%%$'\\t'*}"); fi
  done < <("\${words[0]/#\\~/$HOME}" __complete "\${words[@]:1}" 2>/dev/null)
  if [[ $files ]]; then
    while IFS= read -r word; do
      [[ -d \${word/#\\~/$HOME} ]] && word+=/
      found+=("$cut$word")
    done < <(compgen -f -- "\${current#"$cut"}")
  fi
  COMPREPLY=()
  for word in "\${found[@]}"; do
    [[ $word == "$current"* ]] || continue
    word=\${word#"$cut"}
    printf -v quoted %q "\${word#\\~/}"
    [[ $word == \\~/* ]] && quoted="~/$quoted"
    COMPREPLY+=("$quoted")
  done
  [[ \${#COMPREPLY[@]} == 1 && \${COMPREPLY[0]} == *[:/=] ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _sandglass sandglass
`

/** To be sourced, or put into a folder of fpath as _sandglass. */
const ZSH = `#compdef sandglass
_sandglass() {
  local line word about files
  integer width=0
  local -a lines names shown open
  lines=("\${(@f)$("\${~words[1]}" __complete "\${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  for line in "\${lines[@]}"; do
    word=\${line%%$'\\t'*}
    ((\${#word} > width)) && width=\${#word}
  done
  for line in "\${lines[@]}"; do
    word=\${line%%$'\\t'*} about=
    [[ $line == *$'\\t'* ]] && about=\${line#*$'\\t'}
    if [[ $line == :files ]]; then files=yes
    elif [[ $word == *[:/=] ]]; then open+=("$word")
    elif [[ -n $word ]]; then
      names+=("$word")
      shown+=("\${(r:width:)word}\${about:+  $about}")
    fi
  done
  local tried=1
  ((\${#open})) && compadd -S '' -a open && tried=0
  if ((\${#names})); then
    if [[ "\${shown[*]}" == *'  '[^\\ ]* ]]; then compadd -l -d shown -a names && tried=0; else compadd -a names && tried=0; fi
  fi
  [[ -n $files ]] && _files && tried=0
  return tried
}
if [[ $funcstack[1] == _sandglass ]]; then
  _sandglass "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
  compdef _sandglass sandglass
fi
`

/** To be sourced, or put into ~/.config/fish/completions as sandglass.fish. fish itself adds no space after : / or =. */
const FISH = `function __sandglass_ask
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l plain (string unescape -- $current)
  test -n "$plain"; or set plain "$current"
  set -l program (string replace -r '^~(?=/)' -- $HOME $words[1])
  command $program __complete $words[2..] "$plain" 2>/dev/null
end
function __sandglass_words
  __sandglass_ask | string match -v -- :files
end
function __sandglass_wants_files
  __sandglass_ask | string match -q -- :files
end
complete -c sandglass -e
complete -c sandglass -f -a '(__sandglass_words)'
complete -c sandglass -n __sandglass_wants_files -F
`

export const SCRIPTS = { bash: BASH, zsh: ZSH, fish: FISH } as const
