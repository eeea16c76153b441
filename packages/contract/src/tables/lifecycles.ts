// Lifecycles as tables: state -> event -> next state. An event that is absent is not allowed in that state.
import { SandglassError } from '../errors/sandglass-error.ts'

export const SESSION_LIFECYCLE = {
  creating: { ready: 'running', skip_start: 'stopped', fail: 'failed', terminate: 'terminated' },
  running: {
    pause: 'paused',
    stop: 'stopping',
    complete: 'completed',
    fail: 'failed',
    expire: 'timeout',
    terminate: 'terminated',
  },
  paused: { resume: 'running', stop: 'stopping', fail: 'failed', expire: 'timeout', terminate: 'terminated' },
  stopping: { halt: 'stopped', fail: 'failed', terminate: 'terminated' },
  stopped: { start: 'starting', fail: 'failed', expire: 'timeout', terminate: 'terminated' },
  starting: { ready: 'running', fail: 'failed', terminate: 'terminated' },
  failed: { start: 'starting', terminate: 'terminated' },
  completed: {},
  timeout: {},
  terminated: {},
} as const

export type SessionState = keyof typeof SESSION_LIFECYCLE
export const SESSION_STATES = Object.keys(SESSION_LIFECYCLE) as [SessionState, ...SessionState[]]

type EventsOf<T> = T extends Record<string, infer Row> ? (Row extends unknown ? keyof Row : never) : never
export type SessionEvent = EventsOf<typeof SESSION_LIFECYCLE> & string
export const SESSION_EVENTS = [...new Set(SESSION_STATES.flatMap(s => Object.keys(SESSION_LIFECYCLE[s])))] as SessionEvent[]

/** States without a next state. */
export const FINAL_STATES = SESSION_STATES.filter(s => Object.keys(SESSION_LIFECYCLE[s]).length === 0)
/** States in which a machine is up and has processes: use of the session renews its lease. */
export const LIVE_STATES = statesThatAllow('stop')
/** States without a machine that the session can be started from. */
export const STARTABLE_STATES = statesThatAllow('start')
/** States that end by themselves, when the ttl, the hard limit or the retention is over. */
export const EXPIRABLE_STATES = statesThatAllow('expire')

function statesThatAllow(event: SessionEvent): SessionState[] {
  return SESSION_STATES.filter(state => event in SESSION_LIFECYCLE[state])
}

/** The state after `event`; throws WRONG_STATE where the event is not allowed. */
export function nextState(id: string, state: SessionState, event: SessionEvent, name = id): SessionState {
  const row: Partial<Record<SessionEvent, SessionState>> = SESSION_LIFECYCLE[state]
  const next = row[event]
  if (!next) throw new SandglassError('WRONG_STATE', { id, name, state, event })
  return next
}

/** Why a session is in its state. Stored with the state and shown to users. */
export const REASONS = [
  'requested',
  'created_without_start',
  'started',
  'start_failed',
  'idle_ttl',
  'hard_timeout',
  'retention_ended',
  'runner_exited',
  'out_of_memory',
  'disk_pressure',
  'host_limit',
  'machine_missing',
  'interrupted_create',
  'work_done',
] as const
export type Reason = (typeof REASONS)[number]

/** A task that has ended has an outcome. */
export const TASK_LIFECYCLE = {
  queued: { start: 'running', end: 'done' },
  running: { end: 'done' },
  done: {},
} as const

export type TaskState = keyof typeof TASK_LIFECYCLE
export const TASK_STATES = Object.keys(TASK_LIFECYCLE) as [TaskState, ...TaskState[]]
