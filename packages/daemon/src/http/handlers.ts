// One handler per route.
import type { Api, Handlers } from './api.ts'
import { agentHandlers } from './handlers/agents.ts'
import { eventHandlers } from './handlers/events.ts'
import { execHandlers } from './handlers/exec.ts'
import { fileHandlers } from './handlers/files.ts'
import { healthHandlers } from './handlers/health.ts'
import { imageHandlers } from './handlers/images.ts'
import { networkHandlers } from './handlers/network.ts'
import { policyHandlers } from './handlers/policies.ts'
import { portHandlers } from './handlers/ports.ts'
import { secretHandlers } from './handlers/secrets.ts'
import { sessionHandlers } from './handlers/sessions.ts'
import { taskHandlers } from './handlers/tasks.ts'

export const handlersOf = (api: Api): Handlers => ({
  ...sessionHandlers(api),
  ...execHandlers(api),
  ...fileHandlers(api),
  ...imageHandlers(api),
  ...portHandlers(api),
  ...secretHandlers(api),
  ...policyHandlers(api),
  ...networkHandlers(api),
  ...agentHandlers(api),
  ...taskHandlers(api),
  ...eventHandlers(api),
  ...healthHandlers(api),
})
