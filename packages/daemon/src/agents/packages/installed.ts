// The installed versions of agents, as folders of the data folder: agents/<agent>/<SHA-256 of the tarball>/, each with its record. The file `current`
// beside them has the version that was asked for explicitly.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { AGENT_VERSION, AGENTS, type AgentName, type InstalledAgent } from '@sandglass/contract'
import { z } from 'zod'
import { readJson, writeJson } from '../../lib/json-file.ts'
import { namesIn } from '../../lib/missing-file.ts'
import type { AgentContext } from './context.ts'
import { AGENT_PACKAGES } from './table.ts'

/** In the folder of each version. */
export const RECORD_FILE = 'sandglass.json'
const CURRENT_FILE = 'current'
const DIGEST = /^[0-9a-f]{64}$/

const Record = z.object({ version: z.string(), digest: z.string(), bytes: z.int(), installed_at: z.string() })
const Current = z.object({ version: z.string().regex(AGENT_VERSION) })

/** Newest first. */
export async function installedVersions(context: AgentContext, agent: AgentName): Promise<InstalledAgent[]> {
  const dir = agentDir(context, agent)
  const digests = (await namesIn(dir)).filter(name => DIGEST.test(name))
  const records = await Promise.all(digests.map(digest => readJson(join(dir, digest, RECORD_FILE), Record)))
  return records.filter(record => record !== null).toSorted((a, b) => (a.installed_at < b.installed_at ? 1 : -1))
}

export const findVersion = async (
  context: AgentContext,
  agent: AgentName,
  version: string,
): Promise<InstalledAgent | undefined> => (await installedVersions(context, agent)).find(found => found.version === version)

/** The version that new sessions get: that of the configuration, the one that was asked for last, or the pinned one. */
export async function wantedVersion(context: AgentContext, agent: AgentName): Promise<string> {
  const configured = context.config.agents.versions[agent]
  if (configured !== undefined) return configured
  return (await readJson(currentFile(context, agent), Current))?.version ?? AGENT_PACKAGES[agent].version
}

/** Null: new sessions get the pinned version again. */
export async function rememberVersion(context: AgentContext, agent: AgentName, version: string | null): Promise<void> {
  if (version === null) await rm(currentFile(context, agent), { force: true })
  else await writeJson(currentFile(context, agent), { version })
}

/** Called once when the daemon starts: removes what an interrupted install or removal left. */
export async function removePartialInstalls(context: AgentContext): Promise<void> {
  for (const agent of AGENTS) {
    const whole = new Set([CURRENT_FILE, ...(await installedVersions(context, agent)).map(({ digest }) => digest)])
    const dir = agentDir(context, agent)
    for (const name of await namesIn(dir)) if (!whole.has(name)) await rm(join(dir, name), { recursive: true, force: true })
  }
}

export const agentDir = ({ dataDir }: AgentContext, agent: AgentName): string => join(dataDir, 'agents', agent)

export const versionFolder = (context: AgentContext, agent: AgentName, digest: string): string =>
  join(agentDir(context, agent), digest)

const currentFile = (context: AgentContext, agent: AgentName) => join(agentDir(context, agent), CURRENT_FILE)
