// What a caller gives for a task, and the checks that need no daemon.
import { AGENT_FACTS, AGENTS, SANDBOX_HOME } from '@sandglass/contract/tables'
import type { PolicyOptions, SecretOptions, TaskOptions } from '../../wire-types.ts'
import { SandboxError } from './errors.ts'
import type { MirrorFolders } from './mirror.ts'

/** Not imported: see node/fetch.ts. */
const { realpathSync } = process.getBuiltinModule('node:fs')
const { dirname, join, posix, relative, resolve } = process.getBuiltinModule('node:path')

/** A secret that the sandbox sees as a surrogate. The value is inserted on the way to hosts in `scopes`, in the named `headers`. */
export type MaskedSecret = { value: string } & Pick<
  SecretOptions,
  'scopes' | 'headers' | 'query' | 'body' | 'allowForeignCredentials'
>

/** An AWS key. The sandbox sees surrogates in the variables that AWS SDKs read, and its requests are signed again with this key. */
export type SigningCredential = { accessKeyId: string; secretAccessKey: string; sessionToken?: string; scopes?: string[] }

type OfEachExecution = 'prompt' | 'context' | 'resume' | 'agentSessionId'
type OfGroups = 'attempts' | 'agents' | 'session'

/** Settings of all executions of a task. Those of the wire have the meaning that they have for `client.tasks.create`. */
export type CreateTaskOptions = Omit<TaskOptions, OfEachExecution | OfGroups> &
  MirrorFolders & {
    /** The caller's own key of a conversation, a job or a run: what belongs together has the same one. */
    executionContextId: string
    /** What the sandbox may reach besides the hosts of the agent: stored as a policy of the context. */
    networkSandbox?: PolicyOptions
    /** Secrets by the variable that has their surrogate: stored as secrets of the context. They replace plain variables of that name. */
    maskedSecrets?: Record<string, MaskedSecret>
    /** Replaces masked secrets and plain variables of the names that AWS SDKs read. */
    signingCredential?: SigningCredential
  }

/** Throws for options that would let the sandbox read or hide the files of the facade. */
export function checkOptions({ executionContextId, agent, mounts = [], sessionDir }: CreateTaskOptions): void {
  if (executionContextId === '') throw new SandboxError('executionContextId must not be empty')
  const agents = agent === undefined ? AGENTS : [agent]
  for (const { source, target } of mounts) {
    if (agents.some(name => isStateFolder(target, AGENT_FACTS[name].stateFolder)))
      throw new SandboxError(`the mount at ${target} would hide the state folder of the agent, which the sandbox keeps itself`)
    if (sessionDir !== undefined && isBelow(sessionDir, source))
      throw new SandboxError(
        `sessionDir ${sessionDir} is inside the mount ${source}, so that programs in the sandbox could read it`,
      )
  }
}

/** True for the folder, a path in it, and a path that contains it. */
function isStateFolder(target: string, stateFolder: string): boolean {
  const path = posix.resolve('/', target)
  return ['/root', SANDBOX_HOME].some(home => {
    const folder = `${home}/${stateFolder}`
    return path === folder || path.startsWith(`${folder}/`) || folder.startsWith(path === '/' ? '/' : `${path}/`)
  })
}

function isBelow(path: string, folder: string): boolean {
  const between = relative(realPath(folder), realPath(path))
  return between === '' || (between !== '..' && !between.startsWith('../'))
}

/** With links resolved, as far as the path exists. */
function realPath(path: string): string {
  const absolute = resolve(path)
  try {
    return realpathSync(absolute)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || absolute === dirname(absolute))
      throw new SandboxError(`${path} cannot be resolved`, { cause: error })
    return join(realPath(dirname(absolute)), absolute.slice(dirname(absolute).length))
  }
}
