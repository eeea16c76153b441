// Candidates that the daemon knows: sessions, images, policies, secrets, approvals, tasks, contexts, processes and files in sessions.
import { AGENT_FACTS, AGENTS, SESSION_LIFECYCLE, type SessionEvent } from '@sandglass/contract/tables'
import { type Cancel, SandboxClient } from '@sandglass/sdk'
import { unixFetch } from '@sandglass/sdk/node'
import type { Context } from '../command.ts'
import { shortName } from '../commands/image/short-name.ts'
import { parseEndpoint } from '../copy/endpoint.ts'
import { readApiKey } from '../daemon/settings.ts'
import { printable } from '../output/printable.ts'

export type Candidates = { words: readonly Candidate[]; hasFiles?: boolean }
export type Candidate = { word: string; about?: string }

/** How long a completion may take. */
const TIMEOUT_MS = 1000
const MAX_ENTRIES = 1000
const MAX_ABOUT = 60
const MAX_TASKS = 100

type Asker = Pick<Context, 'settings'>

/** The names of all sessions, or of those whose state allows `event`. */
export async function sessionNames(asker: Asker, event?: SessionEvent): Promise<string[]> {
  const found = (await ask(asker, (client, signal) => client.listSessions({ signal }))) ?? []
  const fitting = event === undefined ? found : found.filter(({ status }) => event in SESSION_LIFECYCLE[status])
  return fitting.map(({ name }) => name)
}

/** What the daemon knows of each noun. */
const NAMED: Readonly<Record<string, (client: SandboxClient, cancel: Cancel) => Promise<Candidate[]>>> = {
  session: async (client, cancel) => (await client.listSessions(cancel)).map(({ name }) => ({ word: name })),
  // As `image ls` shows them.
  image: async ({ images }, cancel) =>
    (await images.list(cancel)).flatMap(({ references }) => references.map(name => ({ word: shortName(name) }))),
  policy: async ({ policies }, cancel) =>
    (await policies.list(cancel)).map(({ name, policy }) => ({ word: name, about: aboutText(policy.description ?? '') })),
  secret: async ({ secrets }, cancel) => (await secrets.list(cancel)).map(({ name }) => ({ word: name })),
  // SECURITY: the sandbox chose method and URL, and the shell shows them.
  approval: async ({ approvals }, cancel) =>
    (await approvals.list({ status: 'pending', ...cancel })).map(({ id, sessionName, method, url }) => ({
      word: id,
      about: aboutText(`${sessionName} ${method ?? 'TCP'} ${url}`),
    })),
  task: async ({ tasks }, cancel) => [
    { word: 'last', about: 'the newest task' },
    ...(await tasks.page({ limit: MAX_TASKS, ...cancel })).items.map(({ id, agent, prompt }) => ({
      word: id,
      about: aboutText(`${agent} ${prompt}`),
    })),
  ],
  // An id that a shell would take apart, or that is not safe to show, is not offered.
  context: async ({ contexts }, cancel) =>
    (await contexts.page({ limit: MAX_TASKS, ...cancel })).items
      .filter(({ id }) => /^[\w./:@-]+$/.test(id))
      .map(({ id, agents }) => ({ word: id, about: agents.join(', ') })),
  agent: async () => AGENTS.map(agent => ({ word: agent, about: AGENT_FACTS[agent].title })),
}

/** The names that a noun can have; none for an unknown noun. */
export async function namesOf(noun: string, asker: Asker): Promise<Candidate[]> {
  const list = NAMED[noun]
  return list === undefined ? [] : ((await ask(asker, (client, signal) => list(client, { signal }))) ?? [])
}

/** The running processes of a session, by tag or else by pid, with their command lines. */
export async function processNames(session: string, asker: Asker): Promise<Candidate[]> {
  const found = await ask(asker, (client, signal) => client.session(session).processes.table({ signal }))
  // SECURITY: a process chooses its command line, and the shell shows it.
  return (found ?? []).map(({ pid, tag, command }) => ({ word: tag ?? String(pid), about: aboutText(command) }))
}

const aboutText = (text: string) => printable(text).slice(0, MAX_ABOUT)

/** An endpoint of a copy: files of this machine, NAME: of a session, or files in that session. */
export async function endpoints(current: string, asker: Asker): Promise<Candidates> {
  const given = parseEndpoint(current)
  if (given.kind === 'sandbox') return { words: await remoteFiles(given.session, current, asker) }
  const words = (await sessionNames(asker)).map(name => ({ word: `${name}:` })).filter(({ word }) => word.startsWith(current))
  return { words, hasFiles: true }
}

async function remoteFiles(session: string, current: string, asker: Asker): Promise<Candidate[]> {
  const folder = current.slice(session.length + 1).replace(/[^/]*$/, '')
  const query = { maxEntries: MAX_ENTRIES }
  const found = await ask(asker, (client, signal) => client.session(session).files.list(folder || '.', { ...query, signal }))
  return (
    (found?.items ?? [])
      // SECURITY: the sandbox chose these names, and the shell shows them; a name with control characters is not offered.
      .filter(({ name }) => printable(name) === name)
      .map(({ name, type }) => ({ word: `${session}:${folder}${name}${type === 'directory' ? '/' : ''}` }))
      .filter(({ word }) => word.startsWith(current))
  )
}

/** Undefined if no daemon runs or the call fails: completion starts no daemon, and the shell would print an error into the command line. */
async function ask<T>(
  { settings }: Asker,
  call: (client: SandboxClient, signal: AbortSignal) => Promise<T>,
): Promise<T | undefined> {
  try {
    const { address, apiKey, dataDir } = await settings()
    const key = apiKey ?? readApiKey(dataDir)
    if (!('socketPath' in address) || key === undefined) return undefined
    const fetch = unixFetch(address.socketPath)
    const client = new SandboxClient({ baseUrl: 'http://sandglass', apiKey: key, fetch, retries: 0 })
    return await call(client, AbortSignal.timeout(TIMEOUT_MS))
  } catch {
    return undefined
  }
}
