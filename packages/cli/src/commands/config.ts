import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { SandglassError } from '@sandglass/contract/tables'
import type { Command } from '../command.ts'
import { daemonArgv } from '../daemon-entry.ts'
import { noArguments } from '../parse.ts'
import { table } from '../table.ts'

type Printed = Record<string, { value: unknown; origin: string }>

export const command: Command = {
  summary: 'Show the configuration and where each value comes from',
  usage: [''],
  about: `A flag of serve wins over a variable (SANDGLASS_ and the key in capitals), that over the file, that over the default.
The file is ~/.sandglass/config.yaml; sandglass init writes it. Secrets are shown as ***.`,
  options: {},
  async run(input, { configPath, json, print }) {
    noArguments(input)
    const [program, ...args] = daemonArgv(
      'serve',
      '--print-config',
      ...(configPath === undefined ? [] : ['--config', configPath]),
    )
    const printed: Printed = JSON.parse(await output(program, args))
    if (json) print(`${JSON.stringify(printed, null, 2)}\n`)
    else
      print(
        table(
          ['KEY', 'VALUE', 'FROM'],
          Object.entries(printed).map(([key, { value, origin }]) => [key, shown(value), origin]),
          process.stdout,
        ),
      )
    return 0
  },
}

/** The daemon says on stderr what is wrong with the configuration, in our own form. */
async function output(program: string, args: string[]): Promise<string> {
  try {
    return (await promisify(execFile)(program, args, { maxBuffer: 16 * 1024 * 1024 })).stdout
  } catch (error) {
    const said = (error as { stderr?: string }).stderr?.split('\n').find(line => line.startsWith('sandglass: '))
    throw new SandglassError(
      'CONFIG_INVALID',
      { source: 'configuration', issue: said?.slice('sandglass: '.length) ?? 'cannot be read' },
      { cause: error },
    )
  }
}

function shown(value: unknown): string {
  if (value === null) return '-'
  if (Array.isArray(value)) return value.length > 0 ? value.join(', ') : '(none)'
  return String(value)
}
