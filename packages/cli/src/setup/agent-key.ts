// `init`: the default agent and its API key. SECURITY: a key comes from a prompt without echo, from stdin or from a variable of the
// environment, never from an argument, which every user of the machine can read.
import { AGENT_FACTS, type AgentName, ENV_NAME } from '@sandglass/contract/tables'
import type { Context, Environment } from '../command.ts'
import { readSecretValue } from '../commands/secret/secret-value.ts'
import { usage } from '../parser/parse.ts'
import { askSecret, confirm } from './ask.ts'

/** The value of --api-key: - for stdin, or the name of a variable. No message repeats what was given, which may be a key. */
export async function keyFromFlag(given: string, agent: AgentName, env: Environment): Promise<string> {
  const { secret, env: usual } = firstCredential(agent)
  if (given === '-') {
    if (process.stdin.isTTY) return requireKey(await askSecret(`API key of ${AGENT_FACTS[agent].title}: `))
    return readSecretValue(secret, 'masked')
  }
  if (!ENV_NAME.test(given) || given !== given.toUpperCase())
    throw usage('--api-key takes - to read the key from stdin, or the name of a variable', `sandglass init --api-key ${usual}`)
  const value = env[given]
  if (value === undefined || value.trim() === '') throw usage('--api-key names a variable that is not set')
  return value.trim()
}

/** Asks for the key; undefined if none is entered, which keeps the stored one. */
export async function askKey(agent: AgentName, env: Environment): Promise<string | undefined> {
  const { about, env: variable } = firstCredential(agent)
  const offered = env[variable]?.trim()
  const { title } = AGENT_FACTS[agent]
  if (offered && (await confirm(`Store ${variable} of the environment as the key of ${title}?`))) return offered
  return (await askSecret(`Key of ${title}, ${about} [Enter keeps what is stored]: `)) || undefined
}

/** Stores a key under the name by which the daemon knows where it may go. */
export async function storeKey(agent: AgentName, key: string, context: Context): Promise<void> {
  if (context.env.SANDGLASS_URL)
    throw usage('init stores keys in the local daemon, but SANDGLASS_URL selects a remote one', 'unset SANDGLASS_URL')
  const { secret } = firstCredential(agent)
  const { secrets } = await context.connect()
  await secrets.set(secret, key)
  context.say(`stored the key of ${AGENT_FACTS[agent].title} as the secret ${secret}\n`)
}

function requireKey(key: string): string {
  if (key === '') throw usage('the key is empty: nothing was stored')
  return key
}

function firstCredential(agent: AgentName): { secret: string; about: string; env: string } {
  const [first] = AGENT_FACTS[agent].credentials
  if (first === undefined) throw new Error(`${agent} has no credential`)
  return { secret: first.secret, about: first.about, env: first.settings.env ?? '' }
}
