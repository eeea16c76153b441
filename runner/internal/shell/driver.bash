# Start-up file of an exec shell. The runner passes three descriptors: the shell reads instructions of one letter from 241 and
# their command from the seekable file 242, and writes reports to 243. They are closed for every command.
# Instructions: r runs a command; w runs one with its own directory, stdin or variables; p shows a prompt; s requests a report.
# The reason in a report is 0 after a command, 1 when bash has come to its prompt, 2 on request.
if [ -r /etc/profile ]; then . /etc/profile 241<&- 242<&- 243>&-; fi
for __sandglass_text in ~/.bash_profile ~/.bash_login ~/.profile; do
  if [ -r "$__sandglass_text" ]; then . "$__sandglass_text" 241<&- 242<&- 243>&-; break; fi
done
# PATH
__sandglass_ran=0 __sandglass_text= __sandglass_code= __sandglass_trace= __sandglass_last= __sandglass_keys= __sandglass_prompt=
__sandglass_next= __sandglass_back= __sandglass_old= __sandglass_stdin=/dev/null __sandglass_line= __sandglass_inner=
__sandglass_status() { return "$1"; }

# In PROMPT_COMMAND, bash keeps ended programs in its list of jobs until the list was shown. In a sourced file it does not, so
# a command that may use the list is evaluated in one.
__sandglass_source() {
  __sandglass_inner=${__sandglass_line:-'\builtin eval "$__sandglass_trace$__sandglass_text"'}
  __sandglass_line='\builtin source /proc/self/fd/240 240<<<"$__sandglass_inner 240<&-"'
}

# Reads the settings of a command and enters its directory. The next step restores the directory, even after an interrupt.
__sandglass_prepare() {
  local folder variables
  IFS= builtin read -r -d '' -u 242 folder
  IFS= builtin read -r -d '' -u 242 __sandglass_stdin
  IFS= builtin read -r -d '' -u 242 variables
  : "${__sandglass_stdin:=/dev/null}"
  # Before `command eval`, variables are set for the command only, even in posix mode.
  if [[ -n $variables ]]; then __sandglass_line=$variables'\command eval "$__sandglass_trace$__sandglass_text"'; fi
  if [[ -z $folder ]]; then return 0; fi
  __sandglass_back=$PWD __sandglass_old=${OLDPWD-}
  builtin cd -- "$folder"
}

__sandglass_restore() {
  if [[ -n $__sandglass_back ]]; then
    # If the directory of the shell is gone, it must not stay in that of the command.
    builtin cd -- "$__sandglass_back" || builtin cd -- ~ || builtin cd /
    OLDPWD=$__sandglass_old
    __sandglass_back=
  fi
  __sandglass_stdin=/dev/null __sandglass_line=
}

# Under errexit a failed eval ends the shell even if the command in it would not: [ -f x ] && cat x. A last line that saves
# the status prevents that. It is left out after text that it could become a part of.
__sandglass_keep() {
  case ${__sandglass_text%"${__sandglass_text##*[![:space:]]}"} in
    *'<<'* | *'\' | *'|' | *'&&' | *'()' | *'( )') ;;
    *) __sandglass_text+=$'\n{ __sandglass_code=$?; } >/dev/null 2>&1' ;;
  esac
}

# One step between two commands: report the last one, read the next instruction. It succeeds if there is a command to evaluate.
# The first step after bash has come to its prompt has an argument and leaves its result to the next step.
__sandglass_step() {
  local status=$? anew=${1-0} letter number
  letter=$__sandglass_next __sandglass_next=
  if [[ -z ${1-} && -n $letter ]]; then
    [[ $letter != p ]]
    return
  fi
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
  if [[ -n $__sandglass_line$__sandglass_back || $__sandglass_stdin != /dev/null ]]; then __sandglass_restore; fi
  while :; do
    if [[ -n $anew ]]; then { builtin printf '%s %s %s ' "$__sandglass_ran" "$status" "$anew"; builtin pwd; builtin printf '\0'; } >&243; fi
    letter= anew=
    IFS= builtin read -r -n 1 -u 241 letter
    case $?$letter in
      1) builtin exit 1 ;;
    esac
    case $letter in
      r | w)
        IFS= builtin read -r -d '' -u 242 number
        if [[ -z $number || $number == "$__sandglass_ran" ]]; then continue; fi
        __sandglass_ran=$number
        IFS= builtin read -r -d '' -u 242 __sandglass_text
        builtin jobs
        if [[ $letter == w ]] && ! __sandglass_prepare; then
          __sandglass_restore
          status=-1 anew=0
          continue
        fi
        if [[ $- == *e* || $__sandglass_text == *set*-* || $__sandglass_text == *errexit* ]]; then __sandglass_keep; fi
        if [[ $__sandglass_text == *jobs* ]]; then __sandglass_source; fi
        if [[ -n ${1-} ]]; then __sandglass_next=r; fi
        return 0 ;;
      s) anew=2 ;;
      p)
        if [[ -z $__sandglass_keys ]]; then
          __sandglass_keys=1
          for letter in emacs vi-insert vi-command; do
            builtin bind -m $letter -x '"\e[9241~": PROMPT_COMMAND[0]=$__sandglass_driver READLINE_LINE= READLINE_POINT=0'
          done
        fi
        __sandglass_prompt=1
        if [[ -n ${1-} ]]; then __sandglass_next=p; fi
        if [[ -n $__sandglass_trace ]]; then set -x; fi
        return 1 ;;
    esac
  done
}

# The loop is top-level code and not a function, so that declare in a command creates global variables. The left side of ||
# sets $? for the command without triggering errexit or an ERR trap. If a command breaks out of the loop, it starts again.
__sandglass_driver='{ __sandglass_step 1; } >/dev/null 2>&1 || \builtin :
while { __sandglass_step; } >/dev/null 2>&1; do
  case $__sandglass_last in
    0) \builtin eval "${__sandglass_line:-$__sandglass_trace$__sandglass_text}" <"$__sandglass_stdin" 241<&- 242<&- 243>&- ;;
    *) __sandglass_status $__sandglass_last || \builtin eval "${__sandglass_line:-$__sandglass_trace$__sandglass_text}" <"$__sandglass_stdin" 241<&- 242<&- 243>&- ;;
  esac
done
\builtin test "$__sandglass_prompt" || \builtin eval "$__sandglass_driver"'
PROMPT_COMMAND=("$__sandglass_driver" ${PROMPT_COMMAND+"${PROMPT_COMMAND[@]}"})
