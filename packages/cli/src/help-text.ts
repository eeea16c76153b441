import { styleText } from 'node:util'
import type { Command, Flag } from './command.ts'
import { GLOBAL_FLAGS } from './commands.ts'

/** Help of one command. */
export function commandHelp(name: string, command: Command, stream: NodeJS.WriteStream): string {
  const title = (text: string) => styleText('bold', text, { stream })
  const forms = command.usage.map(form => `  sandglass ${name}${form ? ` ${form}` : ''}`)
  const blocks = [`${command.summary}\n`, `${title('Usage')}\n${forms.join('\n')}\n`]
  if (command.about) blocks.push(`${command.about.trim()}\n`)
  if (Object.keys(command.options).length > 0) blocks.push(`${title('Flags')}\n${flagLines(command.options)}`)
  blocks.push(`${title('Everywhere')}\n${flagLines(GLOBAL_FLAGS)}`)
  return blocks.join('\n')
}

export function flagLines(options: Readonly<Record<string, Flag>>): string {
  const rows = Object.entries(options).map(([name, flag]) => {
    const short = flag.short ? `-${flag.short}, ` : '    '
    return [`  ${short}--${name}${flag.type === 'string' ? ` ${flag.value ?? 'VALUE'}` : ''}`, flag.about] as const
  })
  const width = Math.min(34, Math.max(...rows.map(([left]) => left.length)))
  return rows.map(([left, about]) => `${left.padEnd(width)}  ${about}\n`).join('')
}
