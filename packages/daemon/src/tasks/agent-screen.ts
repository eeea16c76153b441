// The agent's own interactive screen: the daemon writes its configuration, and the caller starts the program on a terminal.
import { AGENT_FACTS, type AgentName, type RouteBody, type RouteReply, SANDBOX_HOME, WORKSPACE } from '@sandglass/contract'
import { ADAPTERS } from '../agents/adapters/adapters.ts'
import { agentProgram } from '../agents/packages/program.ts'
import { runningSession } from '../sessions/live.ts'
import { writeInSession } from './agent-run/in-session.ts'
import { requireAgent } from './agent-run/session-of-task.ts'
import type { TaskContext } from './context.ts'

export async function prepareScreen(
  { sessions }: TaskContext,
  ref: string,
  agent: AgentName,
  { model, resume, base_url }: RouteBody<'prepareAgent'>,
): Promise<RouteReply<'prepareAgent'>> {
  const { record } = await runningSession(sessions, ref, 'run an agent in')
  requireAgent(record, agent)
  const given = new Map(record.secrets.map(({ name, surrogate }) => [name, surrogate]))
  const credential = AGENT_FACTS[agent].credentials.find(({ secret }) => given.has(secret))
  const surrogate = given.get(credential?.secret ?? '')
  const { argv, env, files } = ADAPTERS[agent].launch({
    program: agentProgram(agent),
    home: SANDBOX_HOME,
    cwd: WORKSPACE,
    isInteractive: true,
    model: model ?? null,
    resume: resume ?? null,
    maxTurns: null,
    maxCostUsd: null,
    baseUrl: base_url ?? null,
    trustRepoConfig: false,
    allowWebTools: false,
    mcp: {},
    credentialEnv: credential?.settings.env ?? null,
    ...(typeof surrogate === 'string' && { surrogate }),
    usageBefore: null,
  })
  for (const file of files) await writeInSession(sessions, record.id, file)
  return { argv, env }
}
