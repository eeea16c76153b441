// All limits and defaults; docs and error texts are made from this table. Where a row has `raise`, the configuration key limits.<raise> sets another
// max, up to `highest`.

const KiB = 1024
const MiB = 1024 * KiB

export const LIMITS = {
  session_ttl_seconds: {
    min: 1,
    max: 86_400,
    default: 1800,
    about: 'seconds without use after which a session expires; each use restarts the count',
  },
  stopped_retention_seconds: {
    min: 1,
    max: 31_536_000,
    default: 604_800,
    about: 'seconds for which a stopped ephemeral session keeps its files; a persistent one keeps them until it is removed',
  },
  session_timeout_sec: {
    min: 1,
    max: 2_592_000,
    default: null,
    about: 'seconds after its creation at which a running, paused or stopped session ends, whatever runs in it; none by default',
  },
  cpu_cores: { min: 0.5, max: 4, highest: 1024, raise: 'max_cpu_cores', default: 0.5, about: 'cpu cores of a session' },
  memory_mb: {
    min: 256,
    max: 8192,
    highest: 4_194_304,
    raise: 'max_memory_mb',
    default: 512,
    about: 'memory of a session in MiB, with no swap',
  },
  disk_mb: {
    min: 1024,
    max: 51_200,
    highest: 67_108_864,
    raise: 'max_disk_mb',
    default: 1024,
    about: 'disk of a session in MiB',
  },
  disk_floor_mb: {
    min: 64,
    max: 1_048_576,
    default: null,
    about:
      'free disk space in MiB that neither sessions nor images get; when absent 5 % of the filesystem, at least 64 MiB and at most 2 GiB',
  },
  pids_limit: {
    min: 64,
    max: 32_768,
    highest: 4_194_304,
    raise: 'max_pids',
    default: 256,
    about: "processes and threads in a session; the runner's own come on top",
  },
  exec_command_bytes: { max: MiB, about: 'length of an exec command line' },
  exec_output_bytes: { max: 64 * MiB, default: MiB, about: 'exec output that is kept; the middle of a longer output is cut' },
  exec_timeout_ms: {
    min: 1,
    max: 120_000,
    default: 30_000,
    about:
      'exec timeout; defaults.max_exec_timeout_ms sets the maximum. exec/stream and processes have no default and no maximum',
  },
  fs_read_bytes: { max: 64 * MiB, default: MiB, about: 'bytes in one reply of fs/read; GET files has no limit' },
  fs_write_bytes: { max: 64 * MiB, about: 'content of one fs/write; PUT files has no limit' },
  json_body_bytes: { max: 96 * MiB, about: 'JSON request body of fs/write' },
  request_body_bytes: { max: 2 * MiB, about: 'any other JSON request body' },
  large_bodies_bytes: {
    max: 192 * MiB,
    about: 'memory for JSON bodies of fs/write and fs/read above 2 MiB; further requests wait',
  },
  list_page: { min: 1, max: 200, default: 50, about: 'items in one page of a list' },
  env_keys: { max: 64, about: 'environment variables of a session or process' },
  env_bytes: { max: 10 * KiB, about: 'environment names and values together' },
  labels: { max: 64, about: 'labels of a session' },
  secret_name: { min: 1, max: 128, about: 'characters in the name of a secret' },
  secret_value_bytes: { min: 1, max: 64 * KiB, about: 'value of a secret' },
  image_reference: { max: 512, about: 'characters in the reference of an image' },
  image_layers: { max: 127, about: 'layers of an image' },
  image_manifest_bytes: { max: 4 * MiB, about: 'manifest or index of an image' },
  image_config_bytes: { max: 4 * MiB, about: 'configuration of an image' },
  image_env_bytes: { max: 32 * KiB, about: 'environment of an image, names and values together' },
  image_settings_bytes: {
    max: 64 * KiB,
    about: 'settings of an image in replies, as JSON; the largest settings are left out beyond it',
  },
  archive_images: { max: 100, about: 'images in one archive' },
  archive_names: { max: 1000, about: 'names of the images in one archive, together' },
  image_entries: {
    max: 2_000_000,
    about: 'files, folders and links in the layers of an image; images.max_bytes bounds its size',
  },
  image_age_seconds: { min: 0, max: 31_536_000, default: 604_800, about: 'age after which a built image is built again' },
  build_timeout_seconds: { min: 1, max: 86_400, default: 1800, about: 'duration of the build of an image' },
  waiting_builds: { max: 32, about: 'image builds that run or are queued' },
  build_context_bytes: { min: 1, max: 64 * 1024 * MiB, default: 1024 * MiB, about: 'total size of the files sent for a build' },
  build_context_entries: { max: 200_000, about: 'files, folders and links sent for a build' },
  dockerfile_bytes: { max: MiB, about: 'Dockerfile, overlay or .dockerignore' },
  path_bytes: { max: 4096, about: 'length of a file path' },
  argv_bytes: { max: MiB, about: 'arguments of a process together' },
  dir_entries: {
    max: 250_000,
    default: 10_000,
    about: 'entries in one reply of fs/list; `truncated` is true if there were more',
  },
  search_matches: { max: 10_000, default: 1000, about: 'matches in one reply of fs/search' },
  waiting_commands: { max: 256, about: 'exec calls of a session that run or wait for a busy shell; exec/stream is not counted' },
  waiting_stdin: { max: 64, about: 'stdin calls of a session that wait for their process to read' },
  shells_per_session: { max: 64, about: 'named shells in a session' },
  processes_kept: { max: 256, about: 'ended processes whose result and recent output are kept' },
  process_output_kept: { max: 256 * KiB, about: 'recent output kept per process stream for re-attachment' },
  slow_reader_seconds: {
    min: 1,
    max: 30,
    default: 30,
    about: 'a client that reads nothing from a stream for this long is disconnected',
  },
  slow_body_seconds: {
    min: 1,
    max: 3600,
    default: 60,
    about: 'a request is ended when no byte of its body arrives for this long',
  },
  json_body_seconds: { max: 300, about: 'time in which a JSON request body has to arrive' },
  events_kept: { max: 100_000, about: 'session events kept for resumable streams' },
  terminal_size: { min: 1, max: 1000, about: 'rows and columns of a terminal' },
} as const

export type LimitName = keyof typeof LIMITS
/** Limits whose max the operator can set. */
export const CEILINGS = ['cpu_cores', 'memory_mb', 'disk_mb', 'pids_limit'] as const
/** Folders in a sandbox that the file calls reach. Any other path is refused. */
export const FILE_ROOTS = ['/workspace', '/tmp', '/home/sandbox'] as const
