// What a user whose limits cannot be enforced has to write before sessions of their own are made.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** Empty when the user's configuration accepts it already. What it prints can be pasted twice without harm. */
export function acceptLimits(unenforced: readonly string[]): string {
  const accepted = acceptedLimits()
  if (unenforced.every(limit => accepted.includes(limit))) return ''
  const head = '\n  # once, to allow sessions of your own without these limits (./sandglass doctor says how to get them instead)'
  const list = `[${unenforced.join(', ')}]`
  if (!existsSync(join(homedir(), '.sandglass', 'config.yaml')))
    return `${head}:
  (umask 077; mkdir -p ~/.sandglass; set -C; echo 'backends: { oci: { allow_unenforced: ${list} } }' > ~/.sandglass/config.yaml)`
  return `${head},
  # have these lines in ~/.sandglass/config.yaml, under the \`backends\` that is there if there is one, and run ./sandglass shutdown:
  backends:
    oci:
      allow_unenforced: ${list}`
}

/** As the command line reads it; nothing where it cannot be read, which the first command then says. */
function acceptedLimits(): readonly string[] {
  try {
    const printed = execFileSync(process.execPath, ['packages/cli/bin/sandglass.mjs', 'config', '--json'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    return JSON.parse(printed)['backends.oci.allow_unenforced'].value
  } catch (error) {
    if (error instanceof Error) return []
    throw error
  }
}
