// The coding agents of a session: which a request asks for, and the policies and secrets that come with them.
import { posix } from 'node:path'
import { AGENT_FACTS, AGENTS_FOLDER, type AgentName, SANDBOX_HOME, SandglassError } from '@sandglass/contract'

import type { HostMount } from '../../backends/backend.ts'
import { storedSettings, variablesOf } from '../../secrets/settings.ts'
import { findSecrets } from '../../store/secrets.ts'
import type { SecretRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import type { SessionRecord } from '../session-record.ts'

/** The policies with those of the agents. Those of agents that the session has no more leave with them. */
export function policiesWith(policies: readonly string[], before: readonly AgentName[], after: readonly AgentName[]): string[] {
  const left = new Set<string>(gone(before, after).map(agent => AGENT_FACTS[agent].policy))
  return [...new Set([...policies.filter(name => !left.has(name)), ...after.map(agent => AGENT_FACTS[agent].policy)])]
}

/**
 * The names of secrets with one for each agent: the first of its credentials that can be used. An agent shares the key of another one whose
 * variable it would read, because a session can have one secret in a variable.
 */
export async function secretsWith(
  { store }: Pick<SessionContext, 'store'>,
  names: readonly string[],
  before: readonly AgentName[],
  after: readonly AgentName[],
): Promise<string[]> {
  const left = new Set(gone(before, after).flatMap(credentialsOf))
  const given = names.filter(name => !left.has(name))
  const rows = await findSecrets(store, [...new Set([...given, ...after.flatMap(credentialsOf)])])
  for (const agent of after) {
    if (credentialsOf(agent).some(name => given.includes(name))) continue
    const found = credentialsOf(agent).flatMap(name => rows.find(row => row.name === name && isUsable(row)) ?? [])
    const taken = new Set(rows.filter(row => given.includes(row.name)).flatMap(variables))
    const [first] = found
    if (first !== undefined && !variables(first).some(variable => taken.has(variable))) given.push(first.name)
  }
  return given
}

/** Agents without a key. `hasVariable` says whether a secret of the session is in a variable. */
export function missingKeys(
  { agents, secrets }: Pick<SessionRecord, 'agents' | 'secrets'>,
  hasVariable: (name: string) => boolean,
): string[] {
  const names = secrets.map(({ name }) => name)
  return agents.flatMap(agent => {
    const { title, credentials } = AGENT_FACTS[agent]
    const hasKey = credentials.some(({ secret, settings }) => names.includes(secret) || hasVariable(settings.env ?? ''))
    const [first] = credentials
    if (hasKey || first === undefined) return []
    return [`${title} has no key: set the secret ${first.secret} (${first.about}), then stop and start the session`]
  })
}

/** SECURITY: a folder of the host in place of an agent's program or state could make the agent run or show something else. */
export function refuseAgentMounts(mounts: readonly HostMount[], agents: readonly AgentName[]): void {
  const states = agents.map(agent => posix.join(SANDBOX_HOME, AGENT_FACTS[agent].stateFolder))
  const own = agents.length > 0 ? [AGENTS_FOLDER, ...states] : []
  for (const { target } of mounts) {
    const path = posix.normalize(`${target}/`)
    const place = own.find(folder => path.startsWith(`${folder}/`) || `${folder}/`.startsWith(path))
    if (place !== undefined || path.startsWith(`${AGENTS_FOLDER}/`))
      throw new SandglassError('INVALID_REQUEST', {
        issue: `mounts: ${target} would hide ${place ?? AGENTS_FOLDER}, which belongs to the agents of the session`,
        next: 'mount it elsewhere, like /mnt/NAME',
      })
  }
}

const gone = (before: readonly AgentName[], after: readonly AgentName[]): AgentName[] =>
  before.filter(agent => !after.includes(agent))

const credentialsOf = (agent: AgentName): string[] => AGENT_FACTS[agent].credentials.map(({ secret }) => secret)

/** A secret without scopes was stored before there were settings. */
const isUsable = ({ settings }: SecretRow) => storedSettings(settings).scopes.length > 0

const variables = ({ name, settings }: SecretRow): string[] => variablesOf(name, storedSettings(settings))
