// Every configuration key: file, environment, flag and default come from this one schema.
// The variable of a key is SANDGLASS_ and its path in capitals: defaults.cpu_cores is SANDGLASS_DEFAULTS_CPU_CORES.
import { z } from 'zod'
import { CEILINGS, LIMITS } from '../tables/limits.ts'
import { SessionName, within } from './primitives.ts'
import { Network } from './session.ts'

export const AGENTS = ['claude', 'codex', 'opencode'] as const
export const UNENFORCEABLE = ['cpu', 'memory', 'pids', 'disk'] as const

const Defaults = z.strictObject({
  cpu_cores: within('cpu_cores').default(LIMITS.cpu_cores.default),
  memory_mb: within('memory_mb').default(LIMITS.memory_mb.default),
  disk_mb: within('disk_mb').default(LIMITS.disk_mb.default),
  pids_limit: within('pids_limit').default(LIMITS.pids_limit.default),
  max_exec_timeout_ms: z
    .int()
    .min(1)
    .max(86_400_000)
    .default(LIMITS.exec_timeout_ms.max)
    .describe('longest exec timeout that may be asked for'),
  network: Network.default('none'),
  readonly_rootfs: z.boolean().default(true).describe('read-only root filesystem unless a session asks otherwise'),
})

const Overcommit = z.strictObject({
  disk: z
    .number()
    .min(1)
    .max(1000)
    .default(8)
    .describe('disk overcommit factor: session disks may total this many times the free space; 1: no overcommit'),
  disk_floor_mb: within('disk_floor_mb').optional(),
})

const ceiling = (name: (typeof CEILINGS)[number]) =>
  within(name).default(LIMITS[name].max).describe(`most ${name} that a session may have`)

const Limits = z.strictObject({
  max_cpu_cores: ceiling('cpu_cores'),
  max_memory_mb: ceiling('memory_mb'),
  max_disk_mb: ceiling('disk_mb'),
  max_pids: ceiling('pids_limit'),
  reserved_open_files: z
    .int()
    .min(1)
    .optional()
    .describe(
      'open files kept free on the host; when fewer are left, the session with the most is ended; default: a fifth of fs.file-max',
    ),
})

const AllowUnenforced = z
  .array(z.enum(UNENFORCEABLE))
  .default([])
  .describe('limits that sessions may go without where this host cannot enforce them; any other is refused')

const Oci = z.strictObject({
  runtime: z
    .string()
    .min(1)
    .default('auto')
    .describe('crun, runc, one of runtimes, a path to another OCI runtime, or auto: crun, else runc'),
  runtimes: z
    // Their names follow the rule of session names.
    .record(SessionName, z.string().startsWith('/'))
    .default({})
    .describe('further OCI runtimes that a session may ask for by name, with their paths'),
  allow_unenforced: AllowUnenforced,
})

const Docker = z.strictObject({
  api_endpoint: z
    .string()
    .min(1)
    .default('unix:///var/run/docker.sock')
    .describe('the engine: unix:///path, or tcp://host:port with the three tls files'),
  tls_ca: z.string().min(1).optional().describe('file with the authority that signed the engine’s certificate'),
  tls_cert: z.string().min(1).optional().describe('file with the certificate shown to the engine'),
  tls_key: z.string().min(1).optional().describe('file with its key'),
  runtimes: z
    .array(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, 'write the engine’s name for it, not a path'))
    .default([])
    .describe('runtimes of the engine that a session may ask for, by the name that the engine knows them by'),
  allow_unenforced: AllowUnenforced,
})

const Microvm = z.strictObject({
  qemu: z.string().min(1).default('auto').describe('path of QEMU, or auto: the one of this architecture'),
  kernel: z
    .string()
    .min(1)
    .default('auto')
    .describe('path of a Linux kernel, its modules beside it in lib/modules, or auto: the newest installed one'),
  accel: z.enum(['auto', 'kvm', 'tcg']).default('auto').describe('auto is kvm where a trial boot works, else tcg'),
  share_proto: z.enum(['virtiofs', '9p']).default('virtiofs').describe('how folders of the host are shared'),
  disk_format: z.enum(['qcow2', 'raw']).default('qcow2').describe('format of a session’s disk'),
  bridge: z.string().min(1).optional().describe('host bridge that a session with network bridge joins'),
  qemu_extra_args: z.array(z.string()).default([]).describe('further arguments of QEMU, given as they are'),
  allow_unenforced: AllowUnenforced,
})

const Images = z.strictObject({
  max_bytes: z
    .int()
    .min(1)
    .default(32 * 1024 ** 3)
    .describe('most bytes that the layers of an image may have, both as they come and unpacked'),
  max_image_age_seconds: within('image_age_seconds')
    .default(LIMITS.image_age_seconds.default)
    .describe('a built image that is older is built again, and what it starts from is looked for anew'),
  build_timeout_seconds: within('build_timeout_seconds')
    .default(LIMITS.build_timeout_seconds.default)
    .describe('a build that takes longer is ended'),
  build_network: z
    .enum(['none', 'default', 'host'])
    .default('default')
    .describe('what the steps of a build can reach: nothing, what containers of the engine can, or what its machine can'),
  build_memory_mb: z.int().min(64).max(1_048_576).default(2048).describe('memory of a step of a build in MiB'),
  build_cpu_cores: z.number().min(0.1).max(1024).default(2).describe('cpu cores of a step of a build'),
  max_context_bytes: within('build_context_bytes')
    .default(LIMITS.build_context_bytes.default)
    .describe('most bytes of files that may be sent for a build'),
})

const Registry = z.strictObject({
  plain_http: z.boolean().optional().describe('speak http, not https; no other registry is spoken to without TLS'),
  username: z.string().min(1).optional(),
  password: z.string().min(1).optional(),
  ca_file: z.string().min(1).optional().describe('file with the authority that signed the certificate of the registry'),
})

export const Config = z
  .strictObject({
    listen: z
      .array(z.string().min(1))
      .default(['unix', '127.0.0.1:8080'])
      .describe('addresses: host:port, unix (a socket in data_dir) or unix:/path; a non-loopback address needs api_key'),
    api_key: z.string().min(16).optional().describe('bearer key; made on first start and kept in data_dir/api-key when absent'),
    cors_origins: z
      .array(
        z.string().refine(isOrigin, 'must be an origin like https://app.example: scheme, host and port, and nothing after them'),
      )
      .default([])
      .describe('origins of web pages that may call from a browser, with the key; none unless listed'),
    data_dir: z.string().min(1).optional().describe('where sessions, disks and the store live; ~/.sandglass/data when absent'),
    store: z.string().optional().describe('path of the SQLite database; data_dir/sandglass.db when absent'),
    default_image: z.string().min(1).default('host').describe('image of a session that names none'),
    allowed_images: z
      .array(z.string().min(1))
      .optional()
      .describe('absent: all images; a list: exactly those; an empty list: none'),
    images: Images.prefault({}),
    registries: z
      .record(
        z.string().regex(/^[a-z0-9.-]+(:[0-9]{1,5})?$|^\[[0-9a-f:]+\](:[0-9]{1,5})?$/, 'is not a host or host:port'),
        Registry,
      )
      .default({})
      .describe(
        'registries by host or host:port, each with plain_http, username, password, ca_file as needed; passwords are never shown',
      ),
    session_ttl_seconds: within('session_ttl_seconds').default(LIMITS.session_ttl_seconds.default),
    stopped_retention_seconds: within('stopped_retention_seconds').default(LIMITS.stopped_retention_seconds.default),
    defaults: Defaults.prefault({}),
    overcommit: Overcommit.prefault({}),
    limits: Limits.prefault({}),
    backends: z.strictObject({ oci: Oci.prefault({}), docker: Docker.prefault({}), microvm: Microvm.prefault({}) }).prefault({}),
    allow_bridge: z.boolean().default(false).describe('sessions may ask for network bridge, which no policy sees'),
    mount_roots: z
      .array(z.string().startsWith('/'))
      .default([])
      .describe('folders of the host below which sessions may ask for mounts; none by default'),
    slow_reader_seconds: within('slow_reader_seconds').default(LIMITS.slow_reader_seconds.default),
    slow_body_seconds: within('slow_body_seconds').default(LIMITS.slow_body_seconds.default),
    log_level: z
      .enum(['error', 'warn', 'info', 'debug', 'silent'])
      .default('info')
      .describe('least severe log line that is written'),
    default_agent: z.enum(AGENTS).default('claude').describe('agent of a task that names none'),
    agent_api_keys: z
      .partialRecord(z.enum(AGENTS), z.string().min(1))
      .default({})
      .describe('API key of each agent; never shown, and better kept as a secret, where sandglass init moves it'),
    sprites_token: z
      .string()
      .min(1)
      .optional()
      .describe('token of the Sprites backend; never shown, and better kept as a secret, where sandglass init moves it'),
  })
  .superRefine(({ defaults, limits }, context) => {
    for (const name of CEILINGS) {
      const { raise } = LIMITS[name]
      if (defaults[name] > limits[raise])
        context.addIssue({
          code: 'custom',
          path: ['defaults', name],
          message: `must be at most ${limits[raise]}, which is limits.${raise}`,
        })
    }
  })
export type Config = z.infer<typeof Config>

/** Keys of the specifications that nothing uses yet: accepted, and not shown in help, reference and lists. */
export const LATER_KEYS = ['default_agent', 'agent_api_keys', 'sprites_token'] as const

/** Keys whose values are secret: shown as *** wherever configuration is printed. */
export const SECRET_KEYS = ['api_key', 'agent_api_keys', 'sprites_token'] as const
/** And fields of the values of others that are. */
export const SECRET_FIELDS: readonly string[] = ['password']

/** The specifications' other names for a key, accepted in the file. */
export const CONFIG_ALIASES: Record<string, string> = {
  db_path: 'store',
  'defaults.cpu_limit': 'defaults.cpu_cores',
  'defaults.vcpus': 'defaults.cpu_cores',
  'defaults.mem_limit_mb': 'defaults.memory_mb',
  'defaults.memory': 'defaults.memory_mb',
  'defaults.network_mode': 'defaults.network',
}

/** As a browser writes it in the Origin header. */
function isOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.parse(text)?.origin === text
}
