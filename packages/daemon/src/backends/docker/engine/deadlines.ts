// An engine that hangs takes a call and never answers. Every call has a deadline, but for those that carry a stream: their end is the caller's.
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'

/** For a question, and for the beginning of an attached stream. */
const ASK_MS = 10_000
/** For what changes something: a busy engine takes its time to start or remove a container. */
const DO_MS = 60_000

type Dial = Docker['modem']['dial']
type Call = Parameters<Dial>[0]

export function withDeadlines(engine: Docker, endpoint: string): Docker {
  const { modem } = engine
  const dial: Dial = modem.dial.bind(modem)
  modem.dial = (call, callback) => {
    const ms = deadlineOf(call)
    if (ms === null) return dial(call, callback)
    const abort = new AbortController()
    const timer = setTimeout(() => abort.abort(), ms)
    dial({ ...call, abortSignal: abort.signal }, (error, answer) => {
      clearTimeout(timer)
      callback?.(abort.signal.aborted ? noAnswer(endpoint) : error, answer)
    })
  }
  return engine
}

function deadlineOf({ method, isStream, hijack, file }: Call): number | null {
  if (hijack) return ASK_MS
  if (isStream || file) return null
  return method === 'GET' ? ASK_MS : DO_MS
}

const noAnswer = (endpoint: string) =>
  new SandglassError('BACKEND_UNAVAILABLE', { backend: 'docker', why: `the Docker engine at ${endpoint} does not answer` })
