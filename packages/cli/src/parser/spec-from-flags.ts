// The flags of `new` and `run`, and the session that they describe.
import { resolve } from 'node:path'
import { isFiltered, LIMITS, NETWORKS, parseMegabytes } from '@sandglass/contract/tables'
import { camelName, type SessionOptions } from '@sandglass/sdk'
import type { Flag, Noun, Values } from '../command.ts'
import { SESSION_FLAGS, type SessionFlag } from '../generated/session-flags.ts'
import { AGENT_FLAG, agentNames } from './agent-names.ts'
import { NONE, parseDuration, shortDuration } from './duration.ts'
import { texts, usage, writtenFlag } from './parse.ts'

const longest = (limit: 'session_ttl_seconds' | 'session_timeout_sec') => shortDuration(LIMITS[limit].max * 1000)

/** Help for flags whose field in the API has a description that does not suit a command line. */
const ABOUT: Readonly<Record<string, string>> = {
  name: 'name of the session, unique among sessions that have not ended; generated when absent',
  image: 'image to start from; default_image of the configuration when absent',
  backend: 'how the session is isolated; auto takes the first of oci, docker and microvm that this host can run',
  network:
    'none: loopback only; allowlist: what the policies allow; nat: every public host on ports 80 and 443; bridge: a real network interface that no policy controls, on docker and microvm, if the configuration has allow_bridge',
  policy:
    'what the session may reach: a policy of yours or a ready-made one, such as npm (`sandglass policy ls`); may be repeated; implies --network allowlist',
  'policy-mode':
    'for requests outside the policies: enforce refuses them, observe allows and records them, ask holds them until you answer (`sandglass approval`)',
  secret:
    'secret that the session may use (`sandglass secret set`): programs see a surrogate, the real value is inserted on the way to its host; may be repeated',
  agent:
    'coding agent that the session gets: claude, codex or opencode; its policy comes with it, and its key as a masked secret; may be repeated',
  runtime:
    'OCI runtime: crun, runc or a name from backends.oci.runtimes; with docker, a name from backends.docker.runtimes; when absent the default of the backend',
  'nested-virt':
    'let the session run virtual machines; needs backend microvm. If this host cannot, --backend microvm creates the session without it, and any other session is refused',
  mount:
    'show a folder of the host in the session, read-only unless :rw; it must be below mount_roots of the configuration; may be repeated',
  'ttl-seconds': `time without use after which the session expires, like 90s or 2h, at most ${longest('session_ttl_seconds')}; every use restarts it; none: it never expires (persistent sessions only)`,
  'on-expiry':
    'when the ttl has passed: end removes the files, stop ends the processes and keeps the files, pause freezes the processes; by default an ephemeral session ends and a persistent one stops',
  'timeout-sec': `end the session this long after its creation, whatever runs in it, like 30m or 2h, at most ${longest('session_timeout_sec')}; none by default`,
  mode: 'ephemeral: the files are removed when the session expires; persistent: they are kept until the session is removed',
  persist: 'the same as --mode persistent',
  env: 'environment variable; may be repeated',
  label: 'label of your own, for filtering lists; may be repeated',
}

/** Values that completion offers, where others are possible. */
const SUGGESTED: Readonly<Record<string, readonly string[]>> = { runtime: ['crun', 'runc'] }

/** Flags whose values completion asks the daemon for. */
const NAMES: Readonly<Record<string, Noun>> = { image: 'image', policy: 'policy', secret: 'secret' }

/** Help for flags that are on by default: what --no-NAME does. */
const TURNED_OFF: Readonly<Record<string, string>> = {
  'readonly-rootfs':
    'make the root filesystem writable, as a private copy; root inside can then read what only root may read in the host’s /usr',
  start: 'create the session stopped',
}

/** Short spellings, which help shows first; the spelling of the field comes below the other flags. */
const SHORT: Readonly<Record<string, string>> = {
  'cpu-cores': 'cpus',
  'memory-mb': 'memory',
  'disk-mb': 'disk',
  'ttl-seconds': 'ttl',
}

/** The flags that describe a session. */
export const SESSION_OPTIONS: Record<string, Flag> = sessionOptions()

export const someSessionOptions = (...names: string[]): Record<string, Flag> =>
  Object.fromEntries(Object.entries(SESSION_OPTIONS).filter(([name]) => names.includes(name)))

function sessionOptions(): Record<string, Flag> {
  const all = Object.entries(SESSION_FLAGS)
  const first = all.map(([name, flag]): [string, Flag] => {
    const short = SHORT[name]
    const option = optionOf(name, flag)
    return short === undefined ? [name, option] : [short, { ...option, aliasOf: name }]
  })
  const long = all.flatMap(([name, flag]): [string, Flag][] => {
    const short = SHORT[name]
    return short === undefined ? [] : [[name, { ...optionOf(name, flag), about: `the same as --${short}` }]]
  })
  return Object.fromEntries([...first, ...long])
}

function optionOf(name: string, { kind, value, choices, about }: SessionFlag): Flag {
  if (kind === 'boolean') {
    const off = TURNED_OFF[name]
    return { type: 'boolean', isOn: off !== undefined, about: off ?? ABOUT[name] ?? about }
  }
  if (name === 'agent') return { ...AGENT_FLAG, about: ABOUT.agent ?? about }
  const unit = kind === 'megabytes' ? '; also with a unit, like 2g' : ''
  const multiple = kind === 'map' || kind === 'list' || kind === 'mount'
  const suggested = SUGGESTED[name]
  const isPath = kind === 'mount'
  return {
    type: 'string',
    multiple,
    value,
    choices,
    suggested,
    isPath,
    names: NAMES[name],
    about: ABOUT[name] ?? about + unit,
  }
}

/** The session that the flags describe. The daemon checks the ranges. */
export function specFromFlags(flags: Values): SessionOptions {
  requireFilter(flags)
  const spec: Record<string, unknown> = {}
  for (const [name, { field, kind, isNullable }] of Object.entries(SESSION_FLAGS)) {
    const given = flags[name]
    if (given === undefined) continue
    const written = writtenFlag(name, flags, SESSION_OPTIONS)
    const isNone = isNullable && texts(given).at(-1) === NONE
    spec[camelName(field)] = typeof given === 'boolean' ? given : isNone ? null : fieldFrom(written, kind, texts(given))
  }
  if (flags.agent !== undefined) spec.agents = agentNames(flags.agent)
  return spec
}

/** A network that no policy controls has no policies. */
function requireFilter({ network, policy, 'policy-mode': mode }: Values): void {
  const unfiltered = NETWORKS.find(known => known === network && !isFiltered(known))
  const flag = texts(policy).length > 0 ? 'policy' : mode === undefined ? undefined : 'policy-mode'
  if (unfiltered !== undefined && flag !== undefined) throw usage(`--network ${unfiltered} and --${flag} exclude each other`)
}

function fieldFrom(flag: string, kind: SessionFlag['kind'], given: readonly string[]): unknown {
  if (kind === 'map') return mapFrom(flag, given)
  if (kind === 'list') return given
  return kind === 'mount' ? given.map(text => mountFrom(flag, text)) : valueFrom(flag, kind, String(given.at(-1)))
}

/** Parses SRC:DST, which is read-only unless :rw follows. SRC may be relative to the current folder. */
function mountFrom(flag: string, text: string): { source: string; target: string; readonly: boolean } {
  const [source = '', target = '', mode = 'ro', ...more] = text.split(':')
  if (source === '' || target === '' || more.length > 0 || (mode !== 'ro' && mode !== 'rw'))
    throw usage(`--${flag} takes SRC:DST or SRC:DST:rw, not ${text}`)
  if (!target.startsWith('/')) throw usage(`--${flag} ${text}: the path in the session must begin with /, and ${target} does not`)
  return { source: resolve(source), target, readonly: mode === 'ro' }
}

/** Parses NAME=VALUE entries. */
export function mapFrom(flag: string, entries: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    entries.map(entry => {
      const at = entry.indexOf('=')
      if (at < 1) throw usage(`--${flag} takes NAME=VALUE`)
      return [entry.slice(0, at), entry.slice(at + 1)]
    }),
  )
}

function valueFrom(flag: string, kind: SessionFlag['kind'], given: string): string | number {
  if (kind === 'seconds') return parseDuration(given, 's', `--${flag}`) / 1000
  if (kind === 'megabytes') {
    const size = parseMegabytes(given)
    if (size === undefined) throw usage(`--${flag} ${given} is not a size; write a number of MiB, or one with a unit like 2g`)
    return size
  }
  if (kind !== 'number') return given
  if (given.trim() === '' || Number.isNaN(Number(given))) throw usage(`--${flag} ${given} is not a number`)
  return Number(given)
}
