// Claude Code on a prompt, in a sandbox that reaches nothing but its model. Its key comes first:
// printf %s "$KEY" | sandglass secret set agent.claude
import { Sandbox } from '@sandglass/sdk/node'

const sandbox = new Sandbox()
await sandbox.startup({ agents: ['claude'] })
const task = sandbox.createTask({
  executionContextId: 'example',
  agent: 'claude',
  baseUrl: process.env.ANTHROPIC_BASE_URL, // a gateway; without one the agent talks to its provider
})
const result = await task.execute('Say hello, then stop.', {
  sessionId: null,
  onEvent: ({ type, name, text, status }) => console.log(type, name ?? text ?? status ?? ''),
})
console.log(result.outcome, result.responseText)
await sandbox.removeContext('example')
await sandbox.shutdown()
