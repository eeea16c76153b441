// The help of one command.
import { styleText } from 'node:util'
import type { Command, Flag } from '../command.ts'
import { GLOBAL_FLAGS } from '../commands.ts'
import { hanging, textWidth, wrapText } from '../output/wrap.ts'
import { optionsOf } from './parse.ts'

/** The help of one command. */
export function commandHelp(name: string, command: Command, stream: NodeJS.WriteStream): string {
  const title = (text: string) => styleText('bold', text, { stream })
  const width = textWidth(stream)
  const forms = command.usage.map(form => `  sandglass ${name}${form ? ` ${form}` : ''}`)
  const blocks = [`${command.summary}\n`, `${title('Usage')}\n${forms.join('\n')}\n`]
  if (command.about) blocks.push(`${wrapText(command.about.trimEnd(), width)}\n`)
  if (Object.keys(command.options).length > 0) blocks.push(`${title('Flags')}\n${flagLines(command.options, width)}`)
  blocks.push(`${title('Global flags')}\n${flagLines(GLOBAL_FLAGS, width)}`)
  return blocks.join('\n')
}

/** The part of a command that belongs to one action: its usage, flags and text. Undefined for an unknown action. */
export function partOf(command: Command, action: string): Command | undefined {
  if (!Array.isArray(command.completes) || !command.completes.includes(action)) return undefined
  const own = command.usage.filter(form => firstWord(form) === action)
  const others = command.completes.filter(word => word !== action)
  const about = command.about?.split('\n\n').filter(paragraph => !others.includes(firstWord(paragraph)))
  const options = optionsOf(command, [action])
  return { ...command, usage: own.length > 0 ? own : command.usage, about: about?.join('\n\n') ?? '', options }
}

const firstWord = (text: string) => text.split(/\s/, 1)[0] ?? ''

/** The explanation of a flag that is longer than this starts on the next line. */
const MAX_LEFT = 30

export function flagLines(options: Readonly<Record<string, Flag>>, width: number): string {
  const rows = Object.entries(options).map(([name, flag]) => [`  ${flagForm(name, flag)}`, flag.about] as const)
  const column = Math.min(MAX_LEFT, Math.max(...rows.map(([left]) => left.length))) + 2
  return rows
    .map(([left, about]) => {
      if (left.length <= column - 2) return hanging(left.padEnd(column), about, width)
      return `${left}\n${hanging(' '.repeat(column), about, width)}`
    })
    .join('')
}

/** A flag as the user writes it. */
export function flagForm(name: string, flag: Flag): string {
  if (name === flag.short) return `-${name}`
  const short = flag.short ? `-${flag.short}, ` : '    '
  if (flag.type === 'boolean') return `${short}--${flag.isOn ? 'no-' : ''}${name}`
  return `${short}--${name} ${flag.choices?.join('|') ?? flag.value ?? 'VALUE'}`
}
