// Prints the events of tasks as they come. On a terminal the last line says how far each task is, and is redrawn every second.
import { styleText } from 'node:util'
import type { TaskEvent, TaskInfo } from '@sandglass/sdk'
import { toSnake } from '@sandglass/sdk'
import { printableJson } from '../output/printable.ts'
import { cutTo } from './agent-text.ts'
import { eventText, type Look } from './event-text.ts'
import { type Progress, progressOf, statusLine, withEvent } from './status-line.ts'

export type ViewStreams = { stdout: NodeJS.WriteStream; stderr: NodeJS.WriteStream }
export type ViewOptions = { json: boolean; quiet: boolean; streams?: ViewStreams; now?: () => number }

const EVERY_MS = 1000

export class LiveView implements Disposable {
  readonly #streams: ViewStreams
  readonly #json: boolean
  readonly #quiet: boolean
  readonly #now: () => number
  readonly #timer: NodeJS.Timeout | undefined
  readonly #progress = new Map<string, Progress>()
  /** The task that printed last: a heading is printed when another one prints. */
  #lastTask: string | undefined
  #isDrawn = false

  constructor({ json, quiet, streams = process, now = Date.now }: ViewOptions) {
    this.#streams = streams
    this.#json = json
    this.#quiet = quiet
    this.#now = now
    if (!json && !quiet && streams.stderr.isTTY) this.#timer = setInterval(() => this.#draw(), EVERY_MS).unref()
  }

  /** Shows a task in the last line from now on. Several tasks are told apart by a heading whenever another one prints. */
  add(task: TaskInfo): void {
    if (task.status !== 'done') this.#progress.set(task.id, progressOf(task))
  }

  show({ id, agent, timeoutSec }: TaskInfo, event: TaskEvent, isOneOfSeveral: boolean): void {
    const { stdout, stderr } = this.#streams
    if (this.#json) {
      const line = isOneOfSeveral ? { ...event, taskId: id } : event
      stdout.write(`${printableJson(toSnake(line))}\n`)
      return
    }
    const known = this.#progress.get(id)
    if (known) this.#progress.set(id, withEvent(known, event, timeoutSec))
    const shown = eventText(event, this.#look())
    if (shown !== null && !(this.#quiet && shown.to === 'stderr')) {
      this.clear()
      if (isOneOfSeveral && this.#lastTask !== id && !this.#quiet)
        stderr.write(`${styleText('bold', `${agent} ${id}`, { stream: stderr })}\n`)
      this.#lastTask = id
      this.#streams[shown.to].write(shown.text)
    }
    this.#draw()
  }

  /** The task is no longer part of the last line. */
  end(id: string): void {
    this.#progress.delete(id)
    this.clear()
    this.#draw()
  }

  /** Erases the last line, so that other output can be written in its place. */
  clear(): void {
    if (this.#isDrawn) this.#streams.stderr.write('\r\x1b[K')
    this.#isDrawn = false
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.clear()
  }

  #look(): Look {
    const { stderr: stream } = this.#streams
    return { columns: stream.isTTY ? stream.columns || 80 : undefined, hasColours: styleText('dim', 'x', { stream }) !== 'x' }
  }

  #draw(): void {
    if (this.#timer === undefined || this.#progress.size === 0) return
    const { stderr } = this.#streams
    const line = [...this.#progress.values()].map(progress => statusLine(progress, this.#now())).join('   ')
    stderr.write(`\r\x1b[K${styleText('dim', cutTo((stderr.columns || 80) - 1, line), { stream: stderr })}`)
    this.#isDrawn = true
  }
}
