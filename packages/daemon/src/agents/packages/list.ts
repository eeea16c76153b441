// GET /v1/agents, and the removal of installed versions.
import { rename, rm } from 'node:fs/promises'
import { AGENT_FACTS, AGENTS, type Agent, type AgentName, type RouteReply, SandglassError } from '@sandglass/contract'
import { prune } from '../../images/store/prune.ts'
import { nullIfMissing } from '../../lib/missing-file.ts'
import { storedSettings } from '../../secrets/settings.ts'
import { findSecrets } from '../../store/secrets.ts'
import { unendedSessions } from '../../store/sessions.ts'
import type { AgentContext } from './context.ts'
import { installedVersions, rememberVersion, versionFolder, wantedVersion } from './installed.ts'
import { AGENT_PACKAGES } from './table.ts'

export async function listAgents(context: AgentContext): Promise<RouteReply<'listAgents'>> {
  return { items: await Promise.all(AGENTS.map(agent => showAgent(context, agent))) }
}

async function showAgent(context: AgentContext, agent: AgentName): Promise<Agent> {
  const secrets = AGENT_FACTS[agent].credentials.map(({ secret }) => secret)
  const rows = await findSecrets(context.store, secrets)
  return {
    agent,
    title: AGENT_FACTS[agent].title,
    version: await wantedVersion(context, agent),
    pinned_version: AGENT_PACKAGES[agent].version,
    installed: await installedVersions(context, agent),
    has_key: rows.some(({ settings }) => storedSettings(settings).scopes.length > 0),
    secrets,
  }
}

/** Removes the versions that no session uses. Throws AGENT_IN_USE if there is no other one. */
export async function removeAgent(context: AgentContext, agent: AgentName): Promise<{ ok: true }> {
  const rows = await unendedSessions(context.store)
  const users = rows.filter(row => (JSON.parse(row.agents) as AgentName[]).includes(agent))
  const digests = users.flatMap(row => (JSON.parse(row.agent_packages) as { digest: string }[]).map(({ digest }) => digest))
  const used = new Set(digests)
  const installed = await installedVersions(context, agent)
  const unused = installed.filter(({ digest }) => !used.has(digest))
  if (installed.length > 0 && unused.length === 0)
    throw new SandglassError('AGENT_IN_USE', { agent, by: firstNames(users.map(({ name }) => name)) })
  for (const { digest, version } of unused) {
    const folder = versionFolder(context, agent, digest)
    // Renamed first, because a folder that is named after its digest counts as complete.
    await rename(folder, `${folder}.old`).catch(nullIfMissing) // another removal was faster
    await rm(`${folder}.old`, { recursive: true, force: true })
    context.log.info({ agent, version, digest }, 'agent removed')
  }
  if (unused.length === installed.length) await rememberVersion(context, agent, null)
  // Backends have made disks and volumes of them.
  await prune(context)
  return { ok: true }
}

const SHOWN_NAMES = 3

function firstNames(names: readonly string[]): string {
  const more = names.length - SHOWN_NAMES
  return more > 0 ? `${names.slice(0, SHOWN_NAMES).join(', ')} and ${more} more sessions` : names.join(', ')
}
