// Installs the agents of a create or start, and gives their programs to the machine.
import type { AgentName } from '@sandglass/contract'
import { ensureAgent, ensureVersion } from '../../agents/packages/install.ts'
import { findVersion, wantedVersion } from '../../agents/packages/installed.ts'
import { agentFolder } from '../../agents/packages/program.ts'
import { progressText } from '../../agents/packages/report.ts'
import type { MachinePackage } from '../../backends/backend.ts'
import type { SessionContext } from '../context.ts'
import type { Waiting } from './prepare-image.ts'

/** As a session stores it. */
export type AgentVersion = { readonly agent: AgentName; readonly version: string; readonly digest: string }

/** Returns the versions of the agents that new starts get. The caller of a create or start sees the progress. */
export async function installAgents(
  context: SessionContext,
  agents: readonly AgentName[],
  waiting: Waiting,
  signal: AbortSignal,
): Promise<AgentVersion[]> {
  for (const agent of agents) {
    const version = await wantedVersion(context, agent)
    if (await findVersion(context, agent, version)) continue
    const install = async (stop: AbortSignal, report: (step: string) => void) => {
      await ensureAgent(context, agent, progress => report(progressText(progress)), stop)
    }
    await context.preparations.join(`agent ${agent} ${version}`, waiting, install, signal)
  }
  return await versionsOf(context, agents, signal)
}

/** The versions of the agents that new starts get, installed if they are missing. */
export async function versionsOf(
  context: SessionContext,
  agents: readonly AgentName[],
  signal: AbortSignal = context.closing,
): Promise<AgentVersion[]> {
  const given: AgentVersion[] = []
  for (const agent of agents) {
    const { version, digest } = await ensureAgent(context, agent, undefined, signal)
    given.push({ agent, version, digest })
  }
  return given
}

/** The folders of a session's agents. One that was removed after the session got it, and before it was stored, is installed again. */
export async function packagesOf(
  context: SessionContext,
  agents: readonly AgentVersion[],
  signal: AbortSignal,
): Promise<MachinePackage[]> {
  const packages: MachinePackage[] = []
  for (const { agent, version } of agents) {
    const { digest, folder } = await ensureVersion(context, agent, version, () => undefined, signal)
    packages.push({ name: agent, digest, folder, target: agentFolder(agent) })
  }
  return packages
}
