# Driver of an exec shell where there is no bash; the descriptors are those of driver.bash.
if [ -r /etc/profile ]; then . /etc/profile; fi
if [ -r ~/.profile ]; then . ~/.profile; fi
set -m
trap : INT
__sandglass_last=0
__sandglass_ran=0
__sandglass_status() { return "$1"; }
while :; do
  printf '%s %s %s\n\0' "$__sandglass_ran" "$__sandglass_last" "$PWD" >&9
  IFS= read -r __sandglass_letter <&7 || exit 1
  __sandglass_ran=$__sandglass_letter
  __sandglass_text=$(cat <&8)
  __sandglass_status "$__sandglass_last"
  eval "$__sandglass_text" 7<&- 8<&- 9>&-
  __sandglass_last=$?
done
