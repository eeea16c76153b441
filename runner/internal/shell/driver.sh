# Driver of an exec shell where there is no bash. The descriptors have the same meaning as in driver.bash. The settings of a
# command (directory, variables, stdin) are part of its text: see settings.go.
if [ -r /etc/profile ]; then . /etc/profile 7<&- 8<&- 9>&-; fi
if [ -r ~/.profile ]; then . ~/.profile 7<&- 8<&- 9>&-; fi
# PATH
set -m
# An interrupt ends the whole command line, even inside of its loops.
trap '__sandglass_last=130; continue 99' INT
__sandglass_last=0
__sandglass_ran=0
__sandglass_back=
__sandglass_refused=
__sandglass_status() { return "$1"; }
while :; do
  if [ "$__sandglass_back" ]; then
    { command cd -- "$__sandglass_back" || command cd ~ || command cd /; } 2>/dev/null
    OLDPWD=$__sandglass_old
    __sandglass_back=
  fi
  printf '%s %s 0 %s\n\0' "$__sandglass_ran" "${__sandglass_refused:-$__sandglass_last}" "$PWD" >&9
  __sandglass_refused=
  IFS= read -r __sandglass_letter <&7 || exit 1
  if [ "$__sandglass_letter" = "$__sandglass_ran" ]; then continue; fi
  __sandglass_ran=$__sandglass_letter
  __sandglass_text=$(cat <&8)
  __sandglass_status "$__sandglass_last"
  command eval "$__sandglass_text" </dev/null 7<&- 8<&- 9>&-
  __sandglass_last=$?
done
