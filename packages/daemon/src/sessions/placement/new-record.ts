// The record of a session that does not exist yet: what the request says, and the configured defaults for what it leaves out.
import { randomInt } from 'node:crypto'
import { type Config, DEFAULT_TEMPLATE, type SessionSpec, WORKSPACE } from '@sandglass/contract'
import { sealEnv } from '../../secrets/encryption.ts'
import type { SessionContext } from '../context.ts'
import { lifetimeOf } from '../lease/lifetime.ts'
import type { SessionRecord } from '../session-record.ts'

/** `backend` is the one asked for, which may be `auto`. What the request says about the network is added by networkSettings. */
export function newRecord({ config, secretKey, now }: SessionContext, spec: SessionSpec, id: string): SessionRecord {
  const { defaults } = config
  const name = spec.name ?? randomName()
  const lifetime = lifetimeOf(spec, config.session_ttl_seconds)
  const env = spec.env ?? {}
  const size = spec.agents?.length ? sizeForAgents(config) : defaults
  const createdAt = now()
  return {
    id,
    name,
    template_id: DEFAULT_TEMPLATE,
    image: spec.image ?? config.default_image,
    image_id: null,
    backend: spec.backend ?? 'auto',
    container_id: null,
    status: 'creating',
    reason: 'requested',
    error_message: null,
    limit_hit: null,
    ...lifetime,
    agent_id: spec.agent_id ?? (lifetime.mode === 'persistent' ? name : null),
    cwd: WORKSPACE,
    cpu_cores: spec.cpu_cores ?? size.cpu_cores,
    memory_mb: spec.memory_mb ?? size.memory_mb,
    disk_mb: spec.disk_mb ?? size.disk_mb,
    pids_limit: spec.pids_limit ?? size.pids_limit,
    resizing: null,
    network: defaults.network,
    policies: [],
    policy_mode: null,
    secrets: [],
    agents: [],
    agent_packages: [],
    agent: null,
    prompt: null,
    ca_fingerprint: null,
    warnings: [],
    runtime: spec.runtime ?? null,
    nested_virt: spec.nested_virt ?? false,
    mounts: spec.mounts ?? [],
    readonly_rootfs: spec.readonly_rootfs ?? defaults.readonly_rootfs,
    unenforced: [],
    env_names: Object.keys(env),
    env_sealed: Object.keys(env).length > 0 ? sealEnv(secretKey, id, env) : null,
    labels: spec.labels ?? {},
    created_at: createdAt,
    started_at: null,
    last_activity_at: createdAt,
    expires_at: null,
    terminated_at: null,
    delete_at: null,
  }
}

type Size = Pick<SessionRecord, 'cpu_cores' | 'memory_mb' | 'disk_mb' | 'pids_limit'>

/** What a coding agent needs to work without being killed, and builds and tests beside it. */
const AGENT_SIZE: Size = { cpu_cores: 2, memory_mb: 2048, disk_mb: 8192, pids_limit: 1024 }

/** The configured defaults where they are larger, and the operator's limits where those are smaller. */
function sizeForAgents({ defaults, limits }: Readonly<Config>): Size {
  const fit = (name: keyof Size, max: number) => Math.min(Math.max(AGENT_SIZE[name], defaults[name]), max)
  return {
    cpu_cores: fit('cpu_cores', limits.max_cpu_cores),
    memory_mb: fit('memory_mb', limits.max_memory_mb),
    disk_mb: fit('disk_mb', limits.max_disk_mb),
    pids_limit: fit('pids_limit', limits.max_pids),
  }
}

const ADJECTIVES =
  'amber bold brave bright brisk calm clear cool coral crisp dusty early fair fleet fond fresh gentle glad golden grand green happy hardy keen kind late light lively lucky mellow merry misty mild neat nimble noble olive patient plain proud quick quiet rapid ready round rustic salty sandy sharp silent silver sleek smooth snowy soft solid spry steady still sunny swift tidy warm wide wild wise'.split(
    ' ',
  )
const NOUNS =
  'acorn badger beach birch bison brook canyon cedar cliff cloud clover comet condor creek crane delta dune eagle ember falcon fern finch fjord forest fox glacier grove gull harbor hawk heron hill island ivy jay lagoon lake lark linden lynx maple marsh meadow mesa moss moth oak orchid osprey otter owl palm pebble pine plover quail raven reef ridge river robin shore sparrow spruce stone summit swan thrush tide trout tulip valley willow wren'.split(
    ' ',
  )
const SUFFIX = 'abcdefghjkmnpqrstuvwxyz23456789'

/** Two words and a short suffix, easy to say and to type. */
function randomName(): string {
  const suffix = Array.from({ length: 4 }, () => SUFFIX[randomInt(SUFFIX.length)]).join('')
  return `${ADJECTIVES[randomInt(ADJECTIVES.length)]}-${NOUNS[randomInt(NOUNS.length)]}-${suffix}`
}
