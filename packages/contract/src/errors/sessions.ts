// Errors of sessions, their machines, shells and processes.
import { FINAL_STATES, STARTABLE_STATES } from '../tables/lifecycles.ts'
import { AFTER_A_CHANGE, type ErrorRow } from './row.ts'

type WrongState = { id: string; state: string; event: string; name?: string; next?: string }
/** `state`, `reason` and `why` describe the session after the loss, if they are known. */
type Lost = { id: string; name?: string; state?: string; reason?: string; why?: string | null }

export const SESSIONS_ERRORS = {
  SESSION_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { id: string; next?: string }) => `no session ${d.id}`,
    hint: (d: { next?: string }) => d.next ?? '`sandglass ls --all` shows what exists',
  },
  SHELL_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { name: string; next?: string }) => `no shell ${d.name}`,
    hint: (d: { next?: string }) => d.next ?? '`sandglass ps` shows the shells of a session under NOTE',
  },
  PROCESS_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { pid: number | string }) => `no process ${d.pid}`,
    hint: 'sandglass ps lists the processes of a session',
  },
  WRONG_STATE: {
    http: 409,
    exit: 5,
    text: (d: WrongState) =>
      `cannot ${d.event} ${d.name ?? d.id}: it ${isFinal(d.state) ? `has ended (${d.state})` : `is ${d.state}`}`,
    hint: fixState,
  },
  NAME_TAKEN: {
    http: 409,
    exit: 5,
    text: (d: { name: string }) => `a session named ${d.name} already exists`,
    hint: ({ name }: { name: string }) =>
      `choose another name, or end the other session with \`sandglass rm ${name}\`; if it failed or was stopped, \`sandglass start ${name}\` starts it again`,
  },
  SHELL_EXISTS: { http: 409, exit: 5, text: (d: { name: string }) => `a shell named ${d.name} already exists` },
  SHELL_EXITED: {
    http: 409,
    exit: 3,
    text: (d: { name: string }) => `shell ${d.name} ended before the command did`,
    hint: 'the next exec starts a new one',
  },
  LIMIT_UNENFORCEABLE: {
    http: 422,
    exit: 3,
    text: (d: { backend: string; limits: string[]; why: string; accept: string[] }) =>
      `this host cannot enforce ${d.limits.join(', ')} with ${d.backend}: ${d.why}`,
    hint: (d: { backend: string; accept: string[] }) =>
      `\`sandglass doctor\` says how to fix it; backends.${d.backend}.allow_unenforced: [${d.accept.join(', ')}] accepts sessions without; ${AFTER_A_CHANGE}`,
  },
  BACKEND_UNAVAILABLE: {
    http: 503,
    exit: 3,
    text: (d: { backend: string; why: string }) => `backend ${d.backend} cannot be used: ${d.why}`,
    hint: '`sandglass doctor` lists what is missing and the command that installs it',
  },
  UNSUPPORTED: {
    http: 501,
    exit: 3,
    text: (d: { what: string; next?: string }) => `not supported here: ${d.what}`,
    // The place that refuses knows the alternative: another flag, the configuration, or the host.
    hint: (d: { next?: string }) => d.next,
  },
  START_FAILED: {
    http: 500,
    exit: 3,
    text: (d: { id: string; why: string; name?: string }) => `session ${d.name ?? d.id} failed to start: ${d.why}`,
    hint: ({ id, name = id }: { id: string; name?: string }) =>
      `\`sandglass logs ${name} --boot\` shows the boot log; \`sandglass start ${name}\` tries again; \`sandglass doctor\` checks the host`,
  },
  PAUSE_FAILED: {
    http: 503,
    exit: 3,
    text: (d: { seconds: number }) => `the session could not be paused: a process in it did not stop within ${d.seconds} seconds`,
    hint: 'the session keeps running; try again when the host is less busy',
  },
  MEMORY_IN_USE: {
    http: 409,
    exit: 5,
    text: (d: { name: string; used_mb: number; memory_mb: number }) =>
      `session ${d.name} uses ${d.used_mb} MiB of memory: with a limit of ${d.memory_mb} MiB the kernel would kill its processes`,
    hint: ({ name }: { name: string }) => `ask for more, or end what runs in it with \`sandglass stop ${name}\` first`,
  },
  RESIZE_FAILED: {
    http: 500,
    exit: 3,
    text: (d: { name: string; why: string }) => `the limits of session ${d.name} could not be changed: ${d.why}`,
    hint: ({ name }: { name: string }) =>
      `\`sandglass inspect ${name}\` shows the limits it has; a stopped session takes new ones at its next start`,
  },
  RUNNER_LOST: {
    http: 502,
    exit: 3,
    text: lostText,
    hint: afterLoss,
  },
  PORT_CLOSED: {
    http: 502,
    exit: 3,
    text: (d: { port: number }) => `nothing listens on port ${d.port} in the sandbox`,
    hint: '`sandglass ports` lists open ports',
  },
  HOST_FULL: {
    http: 503,
    exit: 3,
    text: (d: { what: string }) => `the host is full: ${d.what}`,
    hint: '`sandglass rm` removes a session with its disk, `sandglass image rm` an image',
  },
} as const satisfies Record<string, ErrorRow>

const isFinal = (state: string) => FINAL_STATES.some(final => final === state)

/** How to get from a state to one in which commands work. */
function fixState({ id, name = id, state, next }: WrongState): string {
  if (next !== undefined) return next
  if (state === 'paused') return `\`sandglass resume ${name}\``
  if (isStartable(state)) return `\`sandglass start ${name}\``
  if (isFinal(state)) return 'create a new one with `sandglass new`'
  return `\`sandglass inspect ${name}\` shows the state and its reason`
}

function lostText({ id, name = id, state = '', reason, why }: Lost): string {
  if (!isEnded(state)) return `lost the connection to the sandbox of session ${name} while the command ran`
  return `the sandbox of session ${name} ended while the command ran: ${why ?? `it is ${state} (${reason})`}`
}

function afterLoss({ id, name = id, state = '' }: Lost): string {
  if (isFinal(state)) return 'create a new one with `sandglass new`'
  if (isEnded(state)) return `\`sandglass start ${name}\` starts it again; \`sandglass inspect ${name}\` shows how it ended`
  return `\`sandglass inspect ${name}\` shows whether it is still running; the command may have taken effect`
}

const isStartable = (state: string) => STARTABLE_STATES.some(startable => startable === state)
const isEnded = (state: string) => isStartable(state) || isFinal(state)
