// The hosts of a task besides its agent's own: those of its gateway and of its MCP servers. They are a policy of the context.
import { Policy, SandglassError, type TaskSpec } from '@sandglass/contract'
import { putPolicy, removePolicy } from '../../policies/stored.ts'
import type { TaskRow } from '../../store/tables.ts'
import type { TaskContext } from '../context.ts'

export const policyOfContext = (folder: string): string => `context-${folder.slice(0, 24)}`

/** The name of the policy, if the task needs one. */
export async function taskPolicies({ sessions }: TaskContext, task: TaskRow, spec: TaskSpec): Promise<string[]> {
  const policy = policyFor(spec)
  if (policy === null) return []
  const name = policyOfContext(task.context_folder)
  await sessions.mutex.run(`policy ${name}`, () => putPolicy(sessions, name, policy))
  return [name]
}

/** A caller that names a host on a private address means it. */
export function policyFor({ base_url, mcp = {} }: TaskSpec): Policy | null {
  const urls = [base_url, ...Object.values(mcp).map(({ url }) => url)].flatMap(url => (url === undefined ? [] : [new URL(url)]))
  if (urls.length === 0) return null
  const hosts = urls.map(({ hostname }) => hostname.replace(/^\[|\]$/g, ''))
  const domains = urls.map(({ port }, index) => (port === '' ? (hosts[index] ?? '') : `${hosts[index]}:${port}`))
  return Policy.parse({
    description: 'gateway and MCP servers of a context',
    domains: [...new Set(domains)],
    private: [...new Set(hosts)],
  })
}

/** Called when the context is removed, after its session. A policy that somebody gave to another session stays. */
export async function removeTaskPolicy({ sessions }: TaskContext, folder: string): Promise<void> {
  try {
    await removePolicy(sessions, policyOfContext(folder))
  } catch (error) {
    const isKept = error instanceof SandglassError && (error.is('POLICY_NOT_FOUND') || error.is('POLICY_IN_USE'))
    if (!isKept) throw error
  }
}
