// The one table of everything that can go wrong: code, HTTP status, CLI exit code, text, next step.
// `text` receives the detail that travels with the error, so it is type-checked at every throw.

export type ErrorRow = {
  http: number
  exit: number
  // biome-ignore lint/suspicious/noExplicitAny: each row narrows its own detail; the table needs their union
  text: (detail: any) => string
  /** The next step; a function where it depends on the detail. */
  // biome-ignore lint/suspicious/noExplicitAny: as above
  hint?: string | ((detail: any) => string | undefined)
}

type Empty = Record<never, never>
type WrongState = { id: string; state: string; event: string; name?: string }

type BuildFailure = {
  image: string
  /** Null when it failed outside of a step. */
  step: number | null
  steps: number | null
  instruction: string | null
  exit_code: number | null
  why: string
  /** The last lines of the step. */
  output: string[]
  next?: string
}

/** What makes a daemon that runs take up a changed file. */
const AFTER_A_CHANGE = 'after a change of the configuration run `sandglass shutdown` and try again'

export const ERRORS = {
  INVALID_REQUEST: {
    http: 400,
    exit: 2,
    text: (d: { issue: string; next?: string }) => d.issue,
    hint: (d: { next?: string }) => d.next ?? 'the API reference lists every field and its range',
  },
  TIMEOUT_TOO_LONG: {
    http: 400,
    exit: 2,
    text: (d: { timeout_ms: number; max_ms: number }) =>
      `a timeout of ${d.timeout_ms} ms is more than the maximum of ${d.max_ms} ms`,
    hint: 'ask for less, or raise defaults.max_exec_timeout_ms; a process (`sandglass exec NAME -- PROGRAM`) has no maximum',
  },
  UNAUTHORIZED: {
    http: 401,
    exit: 3,
    text: (_: Empty) => 'missing or wrong API key',
    hint: 'send Authorization: Bearer <key>; `sandglass config` shows where the key comes from',
  },
  IMAGE_NOT_ALLOWED: {
    http: 403,
    exit: 3,
    text: (d: { image: string }) => `image ${d.image} is not among allowed_images`,
    hint: `use one that is listed, or add it to allowed_images; ${AFTER_A_CHANGE}`,
  },
  PERMISSION_DENIED: {
    http: 403,
    exit: 3,
    text: (d: { path: string; where?: string }) => `permission denied${d.where ? ` ${d.where}` : ''}: ${d.path}`,
    hint: (d: { where?: string }) =>
      d.where ? 'choose a place that is yours' : 'the call runs as the user sandbox; pass user root where the API offers it',
  },
  ROUTE_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { method: string; path: string }) => `no route ${d.method} ${d.path}`,
    hint: 'GET /openapi.json lists the routes',
  },
  SESSION_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { id: string; next?: string }) => `no session ${d.id}`,
    hint: (d: { next?: string }) => d.next ?? '`sandglass ls --all` shows what exists',
  },
  SHELL_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { name: string }) => `no shell ${d.name}`,
    hint: 'list shells with GET /v1/sessions/{id}/shells',
  },
  PROCESS_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { pid: number }) => `no process ${d.pid}`,
    hint: 'list processes with GET /v1/sessions/{id}/processes',
  },
  SECRET_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { name: string }) => `no secret ${d.name}`,
    hint: '`sandglass secret ls` shows the names',
  },
  FILE_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { path: string; where?: string }) => `no such file or directory${d.where ? ` ${d.where}` : ''}: ${d.path}`,
  },
  IMAGE_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { image: string; registry?: string }) =>
      d.registry ? `${d.registry} has no image ${d.image}` : `no image ${d.image}`,
    hint: '`sandglass image ls` shows the images in the store; `host` is always there',
  },
  IMAGE_INVALID: {
    http: 422,
    exit: 3,
    text: (d: { image: string; issue: string }) => `${imageCalled(d.image)} cannot be used: ${d.issue}`,
    hint: 'nothing of it was kept',
  },
  IMAGE_TOO_LARGE: {
    http: 413,
    exit: 3,
    text: (d: { image: string; what: string; max: number; next?: string }) =>
      `${imageCalled(d.image)} has more ${d.what} than the ${d.max} it may have`,
    hint: (d: { next?: string }) => d.next ?? `images.max_bytes in the configuration bounds an image; ${AFTER_A_CHANGE}`,
  },
  IMAGE_DIGEST_MISMATCH: {
    http: 502,
    exit: 3,
    text: (d: { image: string; digest: string; issue: string }) => `${imageCalled(d.image)}: what came as ${d.digest} ${d.issue}`,
    hint: 'it was thrown away; try again, and if it stays so, do not trust where it came from',
  },
  IMAGE_IN_USE: {
    http: 409,
    exit: 5,
    text: (d: { image: string; sessions: string[] }) =>
      `image ${d.image} is in use by ${d.sessions.length === 1 ? 'session' : 'sessions'} ${d.sessions.join(', ')}`,
    hint: 'end them with `sandglass rm` first',
  },
  IMAGE_STORE_FULL: {
    http: 507,
    exit: 3,
    text: (d: { image: string; why: string }) => `no room for ${imageCalled(d.image)}: ${d.why}`,
    hint: '`sandglass image rm` removes images, `sandglass rm` sessions with their disks',
  },
  IMAGE_BUILD_FAILED: {
    http: 422,
    exit: 3,
    text: (d: BuildFailure) => `image ${d.image} was not built: ${failedStep(d)}`,
    hint: (d: BuildFailure) => d.next ?? mendBuild(d),
  },
  REGISTRY_DENIED: {
    http: 403,
    exit: 3,
    text: (d: { registry: string; image: string; why: string }) => `${d.registry} does not let us have ${d.image}: ${d.why}`,
    hint: (d: { registry: string }) =>
      `check the name; a private image needs username and password for ${d.registry} under registries in the configuration; ${AFTER_A_CHANGE}`,
  },
  REGISTRY_FAILED: {
    http: 502,
    exit: 3,
    text: (d: { registry: string; why: string; next?: string }) => `registry ${d.registry}: ${d.why}`,
    hint: (d: { next?: string }) => d.next ?? 'try again: what has come already is not downloaded again',
  },
  WRONG_STATE: {
    http: 409,
    exit: 5,
    text: (d: WrongState) => `cannot ${d.event} ${d.name ?? d.id}: it is ${isOver(d.state) ? `over (${d.state})` : d.state}`,
    hint: wayOut,
  },
  NAME_TAKEN: {
    http: 409,
    exit: 5,
    text: (d: { name: string }) => `a session named ${d.name} already exists`,
    hint: ({ name }: { name: string }) =>
      `choose another name, or end the other session with \`sandglass rm ${name}\`; one that failed or was stopped runs again with \`sandglass start ${name}\``,
  },
  SHELL_EXISTS: { http: 409, exit: 5, text: (d: { name: string }) => `a shell named ${d.name} already exists` },
  FILE_EXISTS: { http: 409, exit: 5, text: (d: { path: string }) => `already exists: ${d.path}` },
  NOT_EMPTY: {
    http: 409,
    exit: 5,
    text: (d: { path: string }) => `directory not empty: ${d.path}`,
    hint: 'pass recursive to remove what is inside',
  },
  IDEMPOTENCY_MISMATCH: {
    http: 409,
    exit: 5,
    text: (d: { key: string }) => `Idempotency-Key ${d.key} was used with another request`,
    hint: 'use a fresh key for a different request',
  },
  SHELL_EXITED: {
    http: 409,
    exit: 3,
    text: (d: { name: string }) => `shell ${d.name} ended before the command did`,
    hint: 'the next exec starts it afresh',
  },
  PATH_OUTSIDE_WORKSPACE: {
    http: 400,
    exit: 2,
    text: (d: { path: string }) => `not in a place that files may be reached in: ${d.path}`,
    hint: 'use a path below /workspace, /tmp or /home/sandbox without symbolic links that lead out',
  },
  IS_A_DIRECTORY: {
    http: 400,
    exit: 2,
    text: (d: { path: string }) => `is a directory: ${d.path}`,
    hint: 'use the archive call for directories',
  },
  NOT_A_DIRECTORY: { http: 400, exit: 2, text: (d: { path: string }) => `not a directory: ${d.path}` },
  NOT_A_FILE: { http: 400, exit: 2, text: (d: { path: string }) => `not a regular file: ${d.path}` },
  ARCHIVE_UNSAFE: {
    http: 400,
    exit: 2,
    text: (d: { entry: string; issue: string; next?: string }) => `archive refused: ${d.entry}: ${d.issue}`,
    hint: (d: { next?: string }) =>
      d.next ?? 'nothing after that entry was unpacked; `sandglass cp --skip-unsafe` leaves such entries out',
  },
  BODY_TOO_LARGE: {
    http: 413,
    exit: 2,
    text: (d: { limit: number }) => `request body is larger than ${d.limit} bytes`,
    hint: 'send file contents with PUT /v1/sessions/{id}/files, which takes any size',
  },
  TOO_MANY_WAITING: {
    http: 429,
    exit: 3,
    text: (d: { what: string; limit: number }) => `too many ${d.what} wait already: ${d.limit}`,
    hint: 'wait for some of them to end, or end what they wait for',
  },
  RANGE_NOT_SATISFIABLE: {
    http: 416,
    exit: 2,
    text: (d: { size: number }) => `range starts past the end of the file (${d.size} bytes)`,
  },
  LIMIT_UNENFORCEABLE: {
    http: 422,
    exit: 3,
    text: (d: { backend: string; limits: string[]; why: string }) =>
      `this host cannot enforce ${d.limits.join(', ')} with ${d.backend}: ${d.why}`,
    hint: (d: { backend: string; limits: string[] }) =>
      `\`sandglass doctor\` says how to mend it; backends.${d.backend}.allow_unenforced: [${d.limits.join(', ')}] accepts exactly that; ${AFTER_A_CHANGE}`,
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
    // Who refuses knows the way out, if there is one: it may be another flag, the configuration or the host.
    hint: (d: { next?: string }) => d.next,
  },
  START_FAILED: {
    http: 500,
    exit: 3,
    text: (d: { id: string; why: string; name?: string }) => `session ${d.name ?? d.id} did not start: ${d.why}`,
    hint: ({ id, name = id }: { id: string; name?: string }) =>
      `\`sandglass logs ${name}\` shows the boot log; \`sandglass start ${name}\` tries again; \`sandglass doctor\` checks the host`,
  },
  RUNNER_LOST: {
    http: 502,
    exit: 3,
    text: (d: { id: string }) => `lost the sandbox of ${d.id} during the call`,
    hint: '`sandglass inspect` shows whether it still runs; the call may have taken effect',
  },
  PORT_CLOSED: {
    http: 502,
    exit: 3,
    text: (d: { port: number }) => `nothing listens on port ${d.port} in the sandbox`,
    hint: '`sandglass ports` lists open ports',
  },
  SLOW_READER: {
    http: 503,
    exit: 3,
    text: (_: Empty) => 'the reader fell too far behind and was cut off',
    hint: 'attach again: recent output is kept',
  },
  HOST_FULL: {
    http: 503,
    exit: 3,
    text: (d: { what: string }) => `the host has no room for another session: ${d.what}`,
    hint: 'end a session with `sandglass rm`',
  },
  DISK_FULL: {
    http: 507,
    exit: 3,
    text: (d: { path: string }) => `no space left in the sandbox: ${d.path}`,
    hint: 'remove files, or create the session with a larger disk_mb',
  },
  SOURCE_FAILED: {
    http: 400,
    exit: 3,
    text: (d: { path: string; why: string }) => `${d.path} could not be sent: ${d.why}`,
    hint: 'send it again when nothing else writes to it',
  },
  TARGET_FULL: {
    http: 507,
    exit: 3,
    text: (d: { path: string; bytes: number; free: number }) =>
      `no room for ${d.path} on this machine: it has ${d.bytes} bytes or more and ${d.free} are free`,
    hint: 'copy to a disk with more room; a sparse file arrives at its full length',
  },
  SHUTTING_DOWN: {
    http: 503,
    exit: 3,
    text: (_: Empty) => 'the daemon is stopping',
    hint: 'try again in a moment: sessions keep running',
  },
  CONFIG_INVALID: {
    http: 500,
    exit: 2,
    text: (d: { source: string; issue: string }) => `${d.source}: ${d.issue}`,
    hint: 'docs/reference/configuration.md lists the keys; `sandglass config` shows those in use',
  },
  CONFIG_INSECURE: {
    http: 500,
    exit: 2,
    text: (d: { path: string; mode: string }) => `${d.path} has mode ${d.mode}: others could read its keys`,
    hint: (d: { path: string }) => `chmod 600 ${d.path}`,
  },
  USAGE: {
    http: 400,
    exit: 2,
    text: (d: { issue: string; next?: string }) => d.issue,
    hint: (d: { next?: string }) => d.next ?? '`sandglass help` lists the commands',
  },
  DAEMON_UNREACHABLE: {
    http: 503,
    exit: 3,
    text: (d: { address: string; why: string; next?: string }) => `cannot reach the daemon at ${d.address}: ${d.why}`,
    hint: (d: { next?: string }) => d.next ?? '`sandglass serve` starts one; `sandglass doctor` checks the host',
  },
  DATA_DIR_LOCKED: {
    http: 500,
    exit: 3,
    text: (d: { path: string; pid: string }) => `another daemon (pid ${d.pid}) already uses ${d.path}`,
    hint: '`sandglass shutdown` stops it; or start this one with another data_dir',
  },
  DATA_DIR_UNWRITABLE: {
    http: 500,
    exit: 2,
    text: (d: { path: string; why: string }) => `cannot write to the data folder ${d.path}: ${d.why}`,
    hint: 'set data_dir to a folder you own',
  },
  STORE_DAMAGED: {
    http: 500,
    exit: 3,
    text: (d: { path: string; why: string }) => `the database ${d.path} is damaged: ${d.why}`,
    hint: 'put a backup in its place; or move it away with its -wal and -shm files, and the next start removes every sandbox it named',
  },
  SECRET_KEY_LOST: {
    http: 500,
    exit: 3,
    text: (d: { path: string; why: string; store: string }) => `${d.path} ${d.why}, and ${d.store} has values that it sealed`,
    hint: 'put the key file back from a backup; without one, move the database away with its -wal and -shm files, and the next start removes every sandbox it named',
  },
  SECRET_UNREADABLE: {
    http: 500,
    exit: 3,
    text: (d: { what: string }) => `${d.what} cannot be opened: what is stored was changed, or sealed with another key`,
    hint: 'set a secret again with `sandglass secret set`; a session has to be made again with its environment',
  },
  INTERNAL: {
    http: 500,
    exit: 1,
    text: (d: { message?: string; next?: string }) => d.message ?? 'internal error',
    hint: (d: { next?: string }) => d.next ?? 'the daemon log has the details under this request id',
  },
} as const satisfies Record<string, ErrorRow>

function failedStep({ step, steps, instruction, exit_code, why }: BuildFailure): string {
  if (step === null) return why
  return `step ${step} of ${steps} (${instruction}) ${exit_code === null ? `failed: ${why}` : `ended with exit code ${exit_code}`}`
}

function mendBuild({ output }: BuildFailure): string {
  if (output.length === 0) return 'mend the Dockerfile'
  if (!NO_NETWORK.test(String(output))) return 'mend the step; those before it are not run again'
  return `if the step found no network: images.build_network in the configuration says what steps can reach; ${AFTER_A_CHANGE}`
}

/** What apt, curl, git, pip and npm say. */
const NO_NETWORK =
  /could not resolve|temporary failure (in name resolution|resolving)|network is unreachable|EAI_AGAIN|ENOTFOUND/i

/** An archive that is imported without a name for it is called this. */
const imageCalled = (image: string) => (image === 'the archive' ? image : `image ${image}`)

const isOver = (state: string) => ['completed', 'timeout', 'terminated'].includes(state)

/** From a state to one in which a command works. */
function wayOut({ id, name = id, state }: WrongState): string {
  if (state === 'paused') return `\`sandglass resume ${name}\``
  if (state === 'stopped' || state === 'failed') return `\`sandglass start ${name}\``
  if (isOver(state)) return 'make a new one with `sandglass new`'
  return `\`sandglass inspect ${name}\` shows the state and its reason`
}

export type ErrorCode = keyof typeof ERRORS
export type ErrorDetail<C extends ErrorCode> = Parameters<(typeof ERRORS)[C]['text']>[0]
