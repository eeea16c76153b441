// Handlers of agents: which there are, and their installed versions.
import type { AgentName, InstallRequest } from '@sandglass/contract'
import { installVersion, latestVersion } from '../../agents/packages/install.ts'
import { rememberVersion } from '../../agents/packages/installed.ts'
import { listAgents, removeAgent } from '../../agents/packages/list.ts'
import { AGENT_PACKAGES } from '../../agents/packages/table.ts'
import type { SessionContext } from '../../sessions/context.ts'
import type { Api, Handlers, SseEvent } from '../api.ts'
import { numbered } from '../streams/sse.ts'

export const agentHandlers = ({ context }: Api) =>
  ({
    listAgents: () => listAgents(context),
    installAgent: async ({ params, body, signal }) => numbered(install(context, params.agent, body, signal)),
    deleteAgent: ({ params }) => removeAgent(context, params.agent),
  }) satisfies Partial<Handlers>

/** Progress events, then one with the step `done`. What new sessions get changes once the version is installed. */
async function* install(
  context: SessionContext,
  agent: AgentName,
  { version: asked }: InstallRequest,
  signal: AbortSignal,
): AsyncGenerator<SseEvent, void, undefined> {
  const version = asked === 'latest' ? await latestVersion(context, agent, signal) : (asked ?? AGENT_PACKAGES[agent].version)
  const { report, done } = installVersion(context, agent, version, signal)
  done.catch(() => undefined) // thrown below, unless the client has disconnected
  for await (const data of report.follow()) if (data.step !== 'done') yield { event: 'progress', data }
  const { bytes } = await done
  await rememberVersion(context, agent, asked === undefined ? null : version)
  yield { event: 'done', data: { step: 'done', agent, version, bytes, total_bytes: bytes } }
}
