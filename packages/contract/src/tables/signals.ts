// Signals that can be sent to a process. Free of zod, because the SDK contains it.

/** Linux signal numbers, equal on all supported architectures. */
export const SIGNAL_NUMBERS = {
  HUP: 1,
  INT: 2,
  QUIT: 3,
  KILL: 9,
  USR1: 10,
  USR2: 12,
  TERM: 15,
  CONT: 18,
  STOP: 19,
  TSTP: 20,
  WINCH: 28,
} as const

export type SignalName = keyof typeof SIGNAL_NUMBERS
/** A signal as a caller may write it: TERM, SIGTERM, either in lower case, or 15. */
export type SignalInput = SignalName | `SIG${SignalName}` | Lowercase<SignalName | `SIG${SignalName}`> | number
export const SIGNALS = Object.keys(SIGNAL_NUMBERS) as [SignalName, ...SignalName[]]

/** The name of a signal that is given as TERM, SIGTERM, term, sigterm, 15 or '15'; undefined for one that cannot be sent. */
export function signalName(given: string | number): SignalName | undefined {
  const wanted = String(given).toUpperCase().replace(/^SIG/, '')
  return SIGNALS.find(name => name === wanted || String(SIGNAL_NUMBERS[name]) === wanted)
}
