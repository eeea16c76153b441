// Coding agents and their installed versions.
import { z } from 'zod'
import { AGENT_VERSION, AGENTS } from '../tables/agents.ts'
import { Timestamp } from './primitives.ts'

export const AgentNameSchema = z.enum(AGENTS).describe('coding agent')
export const agentName = z.strictObject({ agent: AgentNameSchema })
const Version = z.string().regex(AGENT_VERSION, 'must be a version such as 1.2.3')

export const InstalledAgent = z.object({
  version: z.string(),
  digest: z.string().describe('SHA-256 of the files'),
  bytes: z.int(),
  installed_at: Timestamp,
})
export type InstalledAgent = z.infer<typeof InstalledAgent>

export const Agent = z.object({
  agent: AgentNameSchema,
  title: z.string(),
  version: z.string().describe('version that new sessions get'),
  pinned_version: z.string().describe('version that this release of Sandglass is tested with'),
  installed: z.array(InstalledAgent).describe('newest first'),
  has_key: z.boolean().describe('whether one of its secrets exists'),
  secrets: z.array(z.string()).describe('names of the secrets that it can use, first choice first'),
})
export type Agent = z.infer<typeof Agent>
export const AgentList = z.object({ items: z.array(Agent) })

export const InstallRequest = z.strictObject({
  version: z
    .union([z.literal('latest'), Version])
    .optional()
    .describe('version that new sessions get from now on; latest asks the registry; when absent the pinned one'),
})
export type InstallRequest = z.infer<typeof InstallRequest>

export const InstallProgress = z.object({
  step: z.enum(['download', 'unpack', 'done']),
  agent: AgentNameSchema,
  version: z.string(),
  bytes: z.int(),
  total_bytes: z.int().nullable(),
})
export type InstallProgress = z.infer<typeof InstallProgress>

export const AgentScreenRequest = z.strictObject({
  model: z.string().min(1).max(200).optional(),
  resume: z.string().min(1).max(200).optional().describe("the agent's own id of a conversation to go on with"),
  base_url: z
    .url({ protocol: /^https?$/ })
    .max(2048)
    .optional(),
})
export const AgentScreen = z.object({
  argv: z.array(z.string()).describe('program and arguments that show the agent on a terminal'),
  env: z.record(z.string(), z.string()),
})
