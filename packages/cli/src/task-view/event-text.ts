// What the live view prints for an event of a task.
import { styleText } from 'node:util'
import type { TaskEvent } from '@sandglass/sdk'
import { cutTo, safeLine, safeLines } from './agent-text.ts'
import { toolInputText } from './tool-text.ts'

/** `columns` is the width of the terminal; undefined: lines are not cut, for a file or a pipe. */
export type Look = { columns: number | undefined; hasColours: boolean }

/** What the agent says goes to stdout; what it does, and what Sandglass does, to stderr. Null: the event is not shown. */
export type Shown = { to: 'stdout' | 'stderr'; text: string } | null

/** Statuses that a person has to know about; the others are in the status line. */
const STATUSES: Readonly<Record<string, string>> = {
  retrying: 'trying again',
  recovering: 'trying again in a new conversation',
  checking: 'running the check',
  checked: 'the check ended',
  warning: 'warning',
}

export function eventText(event: TaskEvent, look: Look): Shown {
  const { type, text = '', parentToolUseId } = event
  const indent = parentToolUseId === undefined ? '' : '  '
  if (type === 'text' && event.isThinking !== true) {
    const said = safeLines(text).replace(/\n+$/, '')
    if (said.trim() === '') return null
    // What a sub-agent says is addressed to the agent, so that one line of it is enough.
    return parentToolUseId === undefined ? { to: 'stdout', text: `${said}\n` } : note(`${indent}${safeLine(text)}`, look)
  }
  if (type === 'text') return safeLine(text) === '' ? null : note(`${indent}(${safeLine(text)})`, look)
  if (type === 'tool_use') return { to: 'stderr', text: toolLine(event, indent, look) }
  if (type === 'tool_result') return event.isError ? note(`${indent}  failed: ${safeLine(event.content ?? '')}`, look) : null
  if (type === 'error') return note(`${indent}error: ${safeLine(text)}`, look)
  if (type === 'status') return statusNote(event, look)
  return null
}

function toolLine({ name = 'tool', input }: TaskEvent, indent: string, { columns, hasColours }: Look): string {
  const title = safeLine(name)
  const line = cut(`${indent}> ${title} ${safeLine(toolInputText(input))}`.trimEnd(), columns)
  const head = `${indent}> ${title}`
  if (!hasColours || !line.startsWith(head)) return `${line}\n`
  return `${indent}${style('cyan', `> ${title}`)}${line.slice(head.length)}\n`
}

function statusNote({ status = '', text = '' }: TaskEvent, look: Look): Shown {
  const known = Object.hasOwn(STATUSES, status) ? STATUSES[status] : undefined
  if (known === undefined) return null
  const detail = safeLine(text)
  return note(detail === '' ? known : `${known}: ${detail}`, look)
}

const note = (line: string, { columns, hasColours }: Look): Shown => {
  const shown = cut(line, columns)
  return { to: 'stderr', text: `${hasColours ? style('dim', shown) : shown}\n` }
}

const cut = (line: string, columns: number | undefined) => (columns === undefined ? line : cutTo(columns, line))
/** The caller has decided about colours. */
const style = (format: 'cyan' | 'dim', text: string) => styleText(format, text, { validateStream: false })
