// Errors of agents, tasks and contexts. How an agent fails is an outcome of its task, and no error.
import { AGENT_FACTS, type AgentCredential, type AgentName } from '../tables/agents.ts'
import type { ErrorRow } from './row.ts'

export const TASKS_ERRORS = {
  TASK_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { id: string }) => `no task ${d.id}`,
    hint: '`sandglass task ls` shows what exists',
  },
  CONTEXT_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { id: string }) => `no context ${d.id}`,
    hint: '`sandglass context ls` shows what exists',
  },
  CONTEXT_BUSY: {
    http: 409,
    exit: 5,
    text: (d: { id: string; task: string }) => `the context ${d.id} is busy with ${d.task}`,
    hint: (d: { task: string }) =>
      `wait for it, stop it with \`sandglass task stop ${d.task}\`, or leave out on_busy to queue the task`,
  },
  UPLOAD_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { id: string }) => `no upload ${d.id}`,
    hint: 'uploads are kept for a day; send it again',
  },
  TASK_HAS_NO_RESULT: {
    http: 409,
    exit: 5,
    text: (d: { id: string; what: string }) => `the task ${d.id} has no ${d.what}`,
    hint: 'a patch and a bundle exist when a task with a repository has ended and its agent has changed something',
  },
  TASK_RUNNING: {
    http: 409,
    exit: 5,
    text: (d: { id: string }) => `the task ${d.id} has not ended`,
    hint: (d: { id: string }) => `sandglass task stop ${d.id}`,
  },
  TASK_QUEUE_FULL: {
    http: 429,
    exit: 3,
    text: (d: { limit: number }) => `${d.limit} tasks wait already`,
    hint: '`sandglass task ls` shows them; try again when some have ended',
  },
  AGENT_KEY_MISSING: {
    http: 409,
    exit: 2,
    text: (d: { agent: string }) => {
      const { title, credentials } = factsOf(d.agent)
      return `${title} has no key: none of the secrets ${credentials.map(({ secret }) => secret).join(', ')} exists`
    },
    hint: (d: { agent: string }) => {
      const [first] = factsOf(d.agent).credentials
      return `sandglass init, or: printf %s "$KEY" | sandglass secret set ${first?.secret} (${first?.about})`
    },
  },
  AGENT_NOT_IN_SESSION: {
    http: 409,
    exit: 5,
    text: (d: { agent: string; name: string }) => `the session ${d.name} runs without the agent ${d.agent}`,
    hint: (d: { agent: string; name: string }) =>
      `sandglass stop ${d.name}, then sandglass start ${d.name} --agent ${d.agent}; or leave out the session`,
  },
  AGENT_IN_USE: {
    http: 409,
    exit: 5,
    text: (d: { agent: string; by: string }) => `the agent ${d.agent} is used by ${d.by}`,
    hint: 'remove those sessions first',
  },
  AGENT_INSTALL_FAILED: {
    http: 502,
    exit: 3,
    text: (d: { agent: string; version: string; why: string }) => `${d.agent} ${d.version} could not be installed: ${d.why}`,
    hint: 'check that the npm registry can be reached from this host; agents.registry names another one',
  },
  MODEL_PRICE_UNKNOWN: {
    http: 400,
    exit: 2,
    text: (d: { agent: string; model: string }) =>
      `the price of ${d.model} is not known, so a budget for ${d.agent} cannot be enforced`,
    hint: 'leave out the budget, or name a model whose price is in the table',
  },
} as const satisfies Record<string, ErrorRow>

/** An agent that this release does not know, as a newer daemon may name, shows its own name. */
const factsOf = (agent: string): { title: string; credentials: readonly Pick<AgentCredential, 'secret' | 'about'>[] } =>
  Object.hasOwn(AGENT_FACTS, agent)
    ? AGENT_FACTS[agent as AgentName]
    : { title: agent, credentials: [{ secret: `agent.${agent}`, about: 'its API key' }] }
