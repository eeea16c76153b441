// The schema of the configuration. The names of flags and variables are derived from its keys: defaults.cpu_cores is --defaults-cpu-cores and
// SANDGLASS_DEFAULTS_CPU_CORES.
import { z } from 'zod'
import { AGENT_VERSION, AGENTS } from '../tables/agents.ts'
import { CEILINGS, LIMITS } from '../tables/limits.ts'
import { SessionName, within } from './primitives.ts'
import { Network } from './session.ts'

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
    .describe('longest timeout that an exec may ask for'),
  network: Network.default('none'),
  readonly_rootfs: z.boolean().default(true).describe('read-only root filesystem, unless the session sets readonly_rootfs'),
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
  within(name).default(LIMITS[name].max).describe(`highest ${name} of a session`)

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
      'open files reserved for the host; when fewer are free, the session with the most open files is ended; default: a fifth of fs.file-max',
    ),
})

const AllowUnenforced = z
  .array(z.enum(UNENFORCEABLE))
  .default([])
  .describe(
    'limits that sessions may lack on a host that cannot enforce them; a session is refused when any other limit cannot be enforced',
  )

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
    .describe('names and paths of further OCI runtimes that a session may ask for'),
  allow_unenforced: AllowUnenforced,
})

const Docker = z.strictObject({
  api_endpoint: z
    .string()
    .min(1)
    .default('unix:///var/run/docker.sock')
    .describe('address of the engine: unix:///path, or tcp://host:port with the three tls files'),
  tls_ca: z.string().min(1).optional().describe('file with the CA certificate of the engine'),
  tls_cert: z.string().min(1).optional().describe('file with the client certificate for the engine'),
  tls_key: z.string().min(1).optional().describe('file with the key of the client certificate'),
  runtimes: z
    .array(
      z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, 'must be the name that the engine has for the runtime, not a path'),
    )
    .default([])
    .describe('names of the engine’s runtimes that a session may ask for'),
  allow_unenforced: AllowUnenforced,
})

const Microvm = z.strictObject({
  qemu: z.string().min(1).default('auto').describe('path of QEMU, or auto: the installed one for this architecture'),
  kernel: z
    .string()
    .min(1)
    .default('auto')
    .describe('path of a Linux kernel with its modules beside it in lib/modules, or auto: the newest installed one'),
  accel: z.enum(['auto', 'kvm', 'tcg']).default('auto').describe('auto: kvm if a trial boot with it succeeds, else tcg'),
  share_proto: z.enum(['virtiofs', '9p']).default('virtiofs').describe('how host folders are shared with the machine'),
  disk_format: z.enum(['qcow2', 'raw']).default('qcow2').describe('format of a session’s disk'),
  bridge: z.string().min(1).optional().describe('host bridge for sessions with network bridge'),
  qemu_extra_args: z.array(z.string()).default([]).describe('additional arguments of QEMU, passed unchanged'),
  allow_unenforced: AllowUnenforced,
})

const Images = z.strictObject({
  max_bytes: z
    .int()
    .min(1)
    .default(32 * 1024 ** 3)
    .describe('highest total size of the layers of an image, both compressed and unpacked'),
  max_image_age_seconds: within('image_age_seconds')
    .default(LIMITS.image_age_seconds.default)
    .describe('maximum age of a built image; an older one is built again, and its base image is looked up again'),
  build_timeout_seconds: within('build_timeout_seconds')
    .default(LIMITS.build_timeout_seconds.default)
    .describe('maximum duration of a build'),
  builder: z
    .enum(['auto', 'session', 'docker'])
    .default('auto')
    .describe(
      'what runs the steps of a build: docker (a Docker engine), session (sandboxes), or auto (the engine if one answers, otherwise sandboxes)',
    ),
  build_network: z
    .enum(['none', 'default', 'host'])
    .default('default')
    .describe(
      'network of build steps: none; default (the network of the engine, or in a sandbox what build_policies allow); host (the network of the host, only with an engine)',
    ),
  build_policies: z
    .array(z.string().min(1).max(128))
    .max(LIMITS.policies_per_session.max)
    .default(['debian', 'npm', 'pypi', 'github', 'crates', 'go'])
    .describe('policies of build steps that run in a sandbox, unless build_network is none'),
  build_memory_mb: z.int().min(64).max(1_048_576).default(2048).describe('memory of a build step in MiB'),
  build_disk_mb: within('disk_mb').default(8192).describe('disk of a build step in MiB, for a step that runs in a sandbox'),
  build_cpu_cores: z.number().min(0.1).max(1024).default(2).describe('cpu cores of a build step'),
  max_context_bytes: within('build_context_bytes')
    .default(LIMITS.build_context_bytes.default)
    .describe('highest total size of the files sent for a build'),
})

const Egress = z.strictObject({
  ca_files: z
    .array(z.string().startsWith('/'))
    .default([])
    .describe('files with further CA certificates that servers on the network may have'),
  overrides: z
    .record(
      z.string().regex(/^[a-z0-9.-]+(:[0-9]{1,5})?$/, 'is not a host or host:port'),
      z.string().regex(/^\S+:[0-9]{1,5}$/, 'is not address:port'),
    )
    .default({})
    .describe('addresses to connect to in place of those that DNS has, by host or host:port'),
  upstream_proxy: z
    .string()
    .regex(/^http:\/\/\S+$/, 'must be http://host:port, with user:password@ before the host if needed')
    .optional()
    .describe('HTTP proxy through which all traffic of sandboxes leaves; user and password are never shown'),
  approval_seconds: within('approval_seconds').default(LIMITS.approval_seconds.default),
  log_bytes: within('network_log_bytes').default(LIMITS.network_log_bytes.default),
})

const Agents = z.strictObject({
  registry: z
    .string()
    .regex(/^https?:\/\/\S+$/, 'must be an http or https address')
    .optional()
    .describe('npm registry that agents are installed from; that of npm when absent'),
  versions: z
    .partialRecord(z.enum(AGENTS), z.string().regex(AGENT_VERSION, 'must be a version such as 1.2.3'))
    .default({})
    .describe('version of each agent; the one that Sandglass was tested with when absent'),
})

const Tasks = z.strictObject({
  max_running: within('tasks_at_once').default(LIMITS.tasks_at_once.default).describe(LIMITS.tasks_at_once.about),
  retention_seconds: within('task_retention_seconds').default(LIMITS.task_retention_seconds.default),
})

const Registry = z.strictObject({
  plain_http: z.boolean().optional().describe('use http instead of https; all other registries are used with TLS only'),
  username: z.string().min(1).optional(),
  password: z.string().min(1).optional(),
  ca_file: z.string().min(1).optional().describe('file with the CA certificate of the registry'),
})

export const Config = z
  .strictObject({
    listen: z
      .array(z.string().min(1))
      .default(['unix', '127.0.0.1:8080'])
      .describe('addresses: host:port, unix (a socket in data_dir) or unix:/path; a non-loopback address needs api_key'),
    api_key: z.string().min(16).optional().describe('bearer key; when absent, the first start creates one in data_dir/api-key'),
    cors_origins: z
      .array(z.string().refine(isOrigin, 'must be an origin like https://app.example: scheme, host and port, nothing else'))
      .default([])
      .describe('origins of web pages that may call the API from a browser; they need the key as well'),
    data_dir: z.string().min(1).optional().describe('folder of sessions, disks and the store; ~/.sandglass/data when absent'),
    store: z.string().optional().describe('path of the SQLite database; data_dir/sandglass.db when absent'),
    default_image: z.string().min(1).default('host').describe('image of a session whose spec has none'),
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
      .describe('registries by host or host:port, with plain_http, username, password or ca_file; passwords are never shown'),
    session_ttl_seconds: within('session_ttl_seconds').default(LIMITS.session_ttl_seconds.default),
    stopped_retention_seconds: within('stopped_retention_seconds').default(LIMITS.stopped_retention_seconds.default),
    defaults: Defaults.prefault({}),
    overcommit: Overcommit.prefault({}),
    limits: Limits.prefault({}),
    backends: z.strictObject({ oci: Oci.prefault({}), docker: Docker.prefault({}), microvm: Microvm.prefault({}) }).prefault({}),
    egress: Egress.prefault({}),
    agents: Agents.prefault({}),
    tasks: Tasks.prefault({}),
    allow_bridge: z.boolean().default(false).describe('sessions may ask for network bridge, which no policy controls'),
    mount_roots: z
      .array(z.string().startsWith('/'))
      .default([])
      .describe('host folders whose content sessions may mount; none by default'),
    slow_reader_seconds: within('slow_reader_seconds').default(LIMITS.slow_reader_seconds.default),
    slow_body_seconds: within('slow_body_seconds').default(LIMITS.slow_body_seconds.default),
    log_level: z.enum(['error', 'warn', 'info', 'debug', 'silent']).default('info').describe('lowest severity that is logged'),
    default_agent: z.enum(AGENTS).default('claude').describe('agent of a task whose spec has none'),
    agent_api_keys: z
      .partialRecord(z.enum(AGENTS), z.string().min(1))
      .default({})
      .describe('API key of each agent; never shown; `sandglass init` moves it to a secret'),
    sprites_token: z
      .string()
      .min(1)
      .optional()
      .describe('token of the Sprites backend; never shown; `sandglass init` moves it to a secret'),
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

/** Keys of the specifications that nothing uses yet: accepted, but not shown in help, reference and lists. */
export const LATER_KEYS = ['sprites_token'] as const

/** Keys whose values are secret: shown as *** wherever configuration is printed. */
export const SECRET_KEYS = ['api_key', 'agent_api_keys', 'sprites_token', 'egress.upstream_proxy'] as const
/** Secret fields in the values of other keys. */
export const SECRET_FIELDS: readonly string[] = ['password']

/** Other names that the specifications have for a key. The file may use them. */
export const CONFIG_ALIASES: Record<string, string> = {
  db_path: 'store',
  'defaults.cpu_limit': 'defaults.cpu_cores',
  'defaults.vcpus': 'defaults.cpu_cores',
  'defaults.mem_limit_mb': 'defaults.memory_mb',
  'defaults.memory': 'defaults.memory_mb',
  'defaults.network_mode': 'defaults.network',
}

/** The form that browsers send in the Origin header. */
function isOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.parse(text)?.origin === text
}
