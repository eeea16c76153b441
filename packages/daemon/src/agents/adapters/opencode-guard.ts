// Refuses to start OpenCode in a repository with plugins. No setting of OpenCode keeps it from running the plugins of a folder it works in:
// with OPENCODE_DISABLE_PROJECT_CONFIG and OPENCODE_PURE, version 1.18.33 still imports them soon after its start.

/** Exit code of the guard, which OpenCode does not use. */
export const REFUSED = 78

/** SECURITY: a plugin runs inside OpenCode, and can change the endpoint, the permissions and every request. */
export const guarded = (argv: readonly string[]): string[] => ['/bin/sh', '-c', SCRIPT, 'sandglass-guard', ...argv]

/**
 * OpenCode looks in its folder and in those above it. The name of a setting can hide behind an escape in JSON, so any escape counts; and if
 * grep cannot tell, that counts too.
 */
const SCRIPT = `
refuse() {
  echo "$1 has plugins for OpenCode, which would run although the configuration of the repository is not trusted; remove them, or set trust_repo_config" >&2
  exit ${REFUSED}
}
folder=$PWD
while :; do
  for plugins in "$folder/.opencode/plugin" "$folder/.opencode/plugins"; do
    if [ -e "$plugins" ]; then refuse "$plugins"; fi
  done
  for config in "$folder/opencode.json" "$folder/opencode.jsonc" "$folder/.opencode/opencode.json" "$folder/.opencode/opencode.jsonc"; do
    if [ -e "$config" ]; then
      grep -q -e plugin -e '\\\\u' "$config"
      if [ $? -ne 1 ]; then refuse "$config"; fi
    fi
  done
  if [ -z "$folder" ] || [ "$folder" = / ]; then break; fi
  folder=\${folder%/*}
done
exec "$@"
`
