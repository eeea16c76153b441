import type { Command } from '../../command.ts'
import { runDaemonCommand } from '../../daemon/daemon-program.ts'
import { noteOutdated } from '../../daemon/running-daemon.ts'
import { printableJson } from '../../output/printable.ts'
import { table } from '../../output/table.ts'
import { noArguments } from '../../parser/parse.ts'

/** A TCP port is opened only by `serve`, or if the configuration has one. */
const LISTEN_NOTE = 'note: a daemon that another command than serve starts listens on unix only\n'

type Printed = Record<string, { value: unknown; origin: string }>

export const command: Command = {
  summary: 'Show the configuration and where each value comes from',
  usage: [''],
  about: `The order of precedence: flags of serve, environment variables (SANDGLASS_ and the key in capitals), the file, the defaults.
The file is ~/.sandglass/config.yaml; sandglass init writes it. Secrets are shown as ***.

A running daemon keeps the configuration that it started with. After sandglass shutdown, the next command starts a daemon with the
current one.

sandglass help serve and docs/reference/configuration.md explain the keys.`,
  options: {},
  async run(input, context) {
    const { configPath, json, print, say } = context
    noArguments(input)
    const printed: Printed = JSON.parse(await runDaemonCommand(['serve', '--print-config'], configPath))
    const rows = Object.entries(printed).map(([key, { value, origin }]) => [key, shown(value), origin])
    print(json ? `${printableJson(printed, 2)}\n` : table(['KEY', 'VALUE', 'FROM'], rows, process.stdout))
    if (printed.listen?.origin === 'default') say(LISTEN_NOTE)
    await noteOutdated(context)
    return 0
  },
}

function shown(value: unknown): string {
  if (value === null) return '-'
  // SECURITY: only the keys of a map are shown, since its values may contain a password.
  const items = typeof value === 'object' && !Array.isArray(value) ? Object.keys(value) : value
  if (Array.isArray(items)) return items.length > 0 ? items.join(', ') : '(none)'
  return String(value)
}
