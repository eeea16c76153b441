import { shortDuration } from '../duration.ts'

/** What is said of a command that --timeout ended. */
export const timeoutNote = (timeoutMs: number) =>
  `sandglass: ended after ${duration(timeoutMs)} (--timeout)\n  next: allow more with --timeout, or leave the flag out: without it there is no limit\n`

/** The same of one that waited for a busy shell all the time. */
export const neverRanNote = (timeoutMs: number, shell: string) =>
  `sandglass: the command never ran: shell ${shell} was busy for ${duration(timeoutMs)} (--timeout)\n  next: allow more with --timeout, use another shell with --shell, or end what runs there with sandglass interrupt\n`

const duration = (ms: number) => (ms % 1000 === 0 ? shortDuration(ms) : `${ms}ms`)
