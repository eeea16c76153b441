// Secrets and the policy of a context, stored under names that are made from its id.
import { createHash } from 'node:crypto'
import { SandglassError } from '@sandglass/contract/tables'
import type { SandboxClient } from '../../client.ts'
import type { TaskOptions } from '../../wire-types.ts'
import type { CreateTaskOptions } from './task-options.ts'

/** Variables that hold the surrogates of a signing credential. */
const AWS_VARIABLES = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN']

export type Stored = Required<Pick<TaskOptions, 'env' | 'secrets' | 'policies'>>

/** Stores what the options hold. Returns the environment without the variables that are secrets, and the names to give to tasks. */
export async function storeSecrets(client: SandboxClient, options: CreateTaskOptions): Promise<Stored> {
  const { executionContextId, networkSandbox, signingCredential, maskedSecrets = {} } = options
  const names = namesOf(executionContextId)
  const isSigned = (variable: string) => signingCredential !== undefined && AWS_VARIABLES.includes(variable)
  const masked = Object.entries(maskedSecrets).filter(([variable]) => !isSigned(variable))
  const env = Object.entries(options.env ?? {}).filter(
    ([variable]) => !isSigned(variable) && !Object.hasOwn(maskedSecrets, variable),
  )
  const secrets = [...(options.secrets ?? [])]
  for (const [variable, { value, ...settings }] of masked) {
    const name = names.secret(variable)
    await client.secrets.set(name, value, { kind: 'masked', env: variable, ...settings })
    secrets.push(name)
  }
  if (signingCredential !== undefined) {
    const { accessKeyId, secretAccessKey, sessionToken, scopes } = signingCredential
    const value = { access_key_id: accessKeyId, secret_access_key: secretAccessKey, session_token: sessionToken }
    await client.secrets.set(names.signing, JSON.stringify(value), { preset: 'aws', ...(scopes && { scopes }) })
    secrets.push(names.signing)
  }
  const policies = [...(options.policies ?? [])]
  if (networkSandbox !== undefined) {
    await client.policies.set(names.policy, networkSandbox)
    policies.push(names.policy)
  }
  return { env: Object.fromEntries(env), secrets, policies }
}

/** Removes the secrets and the policy of a context. It is no error if they do not exist. */
export async function removeSecrets(client: SandboxClient, executionContextId: string): Promise<void> {
  const { prefix, policy } = namesOf(executionContextId)
  for (const { name } of await client.secrets.list()) if (name.startsWith(prefix)) await client.secrets.remove(name)
  await client.policies.remove(policy).catch(error => {
    if (!(error instanceof SandglassError) || !error.is('POLICY_NOT_FOUND')) throw error
  })
}

/** The id of a context is any text, so its digest stands for it. */
function namesOf(executionContextId: string) {
  const digest = createHash('sha256').update(executionContextId).digest('hex').slice(0, 32)
  const prefix = `context.${digest}.`
  return { prefix, secret: (variable: string) => prefix + variable, signing: `${prefix}aws-signing`, policy: `context-${digest}` }
}
