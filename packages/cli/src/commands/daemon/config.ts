import type { Command } from '../../command.ts'
import { runDaemonCommand } from '../../daemon/daemon-program.ts'
import { noteOutdated } from '../../daemon/running-daemon.ts'
import { printableJson } from '../../output/printable.ts'
import { table } from '../../output/table.ts'
import { noArguments } from '../../parser/parse.ts'

/** A TCP port is opened only by who runs serve, or has it in the configuration. */
const LISTEN_NOTE = 'listen is that of serve; a daemon that another command starts has unix alone\n'

type Printed = Record<string, { value: unknown; origin: string }>

export const command: Command = {
  summary: 'Show the configuration and where each value comes from',
  usage: [''],
  about: `A flag of serve wins over a variable (SANDGLASS_ and the key in capitals), that over the file, that over the default.
The file is ~/.sandglass/config.yaml; sandglass init writes it. Secrets are shown as ***.
A daemon that runs keeps the configuration it started with: sandglass shutdown makes the next command start one with this.
sandglass help serve explains the keys, and so does docs/reference/configuration.md.`,
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
  // SECURITY: of a map the names alone are shown: its values may hold a password.
  const items = typeof value === 'object' && !Array.isArray(value) ? Object.keys(value) : value
  if (Array.isArray(items)) return items.length > 0 ? items.join(', ') : '(none)'
  return String(value)
}
