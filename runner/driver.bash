# Start-up of an exec shell. The runner passes three descriptors: 241 gives one letter per instruction, 242 is a
# seekable file with the command of an instruction, on 243 the shell reports. They are closed for everything else.
if [ -r /etc/profile ]; then . /etc/profile 241<&- 242<&- 243>&-; fi
for __sandglass_text in ~/.bash_profile ~/.bash_login ~/.profile; do
  if [ -r "$__sandglass_text" ]; then . "$__sandglass_text" 241<&- 242<&- 243>&-; break; fi
done
# PATH
__sandglass_ran=0 __sandglass_text= __sandglass_code= __sandglass_trace= __sandglass_last= __sandglass_keys= __sandglass_prompt=
__sandglass_status() { return "$1"; }

# Under errexit a failed eval ends the shell, even where the command in it would not: [ -f x ] && cat x. A last line that
# takes the status prevents that. It is left out behind text that it could become a part of.
__sandglass_keep() {
  case ${__sandglass_text%"${__sandglass_text##*[![:space:]]}"} in
    *'<<'* | *'\' | *'|' | *'&&' | *'()' | *'( )') ;;
    *) __sandglass_text+=$'\n{ __sandglass_code=$?; } >/dev/null 2>&1' ;;
  esac
}

# One step between two commands: report the last one, take the next instruction. Success means: a command to evaluate.
__sandglass_step() {
  local status=$? letter number
  __sandglass_prompt=
  if (( status == 0 )) && [[ -n $__sandglass_code ]]; then status=$__sandglass_code; fi
  __sandglass_code=
  case $- in
    *x*)
      set +x
      __sandglass_trace=$'set -x\n'
      if (( status )) && [[ $- != *e* ]]; then __sandglass_trace="{ set -x; __sandglass_status $status; } 2>/dev/null"$'\n'; fi ;;
    *) __sandglass_trace= ;;
  esac
  if [[ ${PROMPT_COMMAND-} != "$__sandglass_driver" ]]; then
    PROMPT_COMMAND=("$__sandglass_driver" ${PROMPT_COMMAND+"${PROMPT_COMMAND[@]}"})
  fi
  __sandglass_last=$status
  { builtin printf '%s %s ' "$__sandglass_ran" "$status"; builtin pwd; builtin printf '\0'; } >&243
  while :; do
    letter=
    IFS= builtin read -r -n 1 -u 241 letter
    case $?$letter in
      1) builtin exit 1 ;;
    esac
    case $letter in
      r)
        IFS= builtin read -r -d '' -u 242 number
        if [[ -z $number || $number == "$__sandglass_ran" ]]; then continue; fi
        __sandglass_ran=$number
        IFS= builtin read -r -d '' -u 242 __sandglass_text
        # In a loop bash keeps programs that ended in its list of jobs until somebody has seen it.
        builtin jobs
        if [[ $- == *e* || $__sandglass_text == *set*-* || $__sandglass_text == *errexit* ]]; then __sandglass_keep; fi
        return 0 ;;
      p)
        if [[ -z $__sandglass_keys ]]; then
          __sandglass_keys=1
          for letter in emacs vi-insert vi-command; do
            builtin bind -m $letter -x '"\e[9241~": PROMPT_COMMAND[0]=$__sandglass_driver READLINE_LINE= READLINE_POINT=0'
          done
        fi
        __sandglass_prompt=1
        if [[ -n $__sandglass_trace ]]; then set -x; fi
        return 1 ;;
    esac
  done
}

# The loop is top-level code, not a function, so that declare in a command makes global variables. The left side of ||
# sets $? for the command without setting off errexit or an ERR trap. A command that breaks out of the loop starts it again.
__sandglass_driver='while { __sandglass_step; } >/dev/null 2>&1; do
  case $__sandglass_last in
    0) \builtin eval "$__sandglass_trace$__sandglass_text" 241<&- 242<&- 243>&- ;;
    *) __sandglass_status $__sandglass_last || \builtin eval "$__sandglass_trace$__sandglass_text" 241<&- 242<&- 243>&- ;;
  esac
done
\builtin test "$__sandglass_prompt" || \builtin eval "$__sandglass_driver"'
PROMPT_COMMAND=("$__sandglass_driver" ${PROMPT_COMMAND+"${PROMPT_COMMAND[@]}"})
