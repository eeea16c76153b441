# Driver of an exec shell where there is no bash; the descriptors are those of driver.bash.
if [ -r /etc/profile ]; then . /etc/profile 7<&- 8<&- 9>&-; fi
if [ -r ~/.profile ]; then . ~/.profile 7<&- 8<&- 9>&-; fi
# PATH
set -m
trap : INT
__sandglass_last=0
__sandglass_ran=0
__sandglass_status() { return "$1"; }
while :; do
  printf '%s %s %s\n\0' "$__sandglass_ran" "$__sandglass_last" "$PWD" >&9
  IFS= read -r __sandglass_letter <&7 || exit 1
  if [ "$__sandglass_letter" = "$__sandglass_ran" ]; then continue; fi
  __sandglass_ran=$__sandglass_letter
  __sandglass_text=$(cat <&8)
  __sandglass_status "$__sandglass_last"
  command eval "$__sandglass_text" 7<&- 8<&- 9>&-
  __sandglass_last=$?
done
