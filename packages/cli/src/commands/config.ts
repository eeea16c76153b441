import type { Command } from '../command.ts'
import { askDaemon } from '../daemon-entry.ts'
import { noteOutdated } from '../outdated-note.ts'
import { noArguments } from '../parse.ts'
import { table } from '../table.ts'

/** A TCP port is opened only by who runs serve, or has it in the configuration. */
const LISTEN_DEFAULT = 'default of serve; a daemon that a command starts has unix alone'

type Printed = Record<string, { value: unknown; origin: string }>

export const command: Command = {
  summary: 'Show the configuration and where each value comes from',
  usage: [''],
  about: `A flag of serve wins over a variable (SANDGLASS_ and the key in capitals), that over the file, that over the default.
The file is ~/.sandglass/config.yaml; sandglass init writes it. Secrets are shown as ***.
A daemon that runs keeps the configuration it started with: sandglass shutdown makes the next command start one with this.
The keys are explained in docs/reference/configuration.md.`,
  options: {},
  async run(input, context) {
    const { configPath, json, print } = context
    noArguments(input)
    const printed: Printed = JSON.parse(await askDaemon(['serve', '--print-config'], configPath))
    const rows = Object.entries(printed).map(([key, { value, origin }]) => [
      key,
      shown(value),
      key === 'listen' && origin === 'default' ? LISTEN_DEFAULT : origin,
    ])
    print(json ? `${JSON.stringify(printed, null, 2)}\n` : table(['KEY', 'VALUE', 'FROM'], rows, process.stdout))
    await noteOutdated(context)
    return 0
  },
}

function shown(value: unknown): string {
  if (value === null) return '-'
  if (Array.isArray(value)) return value.length > 0 ? value.join(', ') : '(none)'
  return String(value)
}
