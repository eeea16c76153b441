// Runs git on this machine, for repositories that go to a task and come back from it.
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import type { Environment } from '../command.ts'
import { usage } from '../parser/parse.ts'

/**
 * SECURITY: settings for every call. No hook, file system monitor, command or maintenance of the repository runs, whatever the configuration of
 * the user or of the repository says. Filters have names of their own: `withoutFilters` is for the commands that read files.
 */
const SETTINGS = {
  'core.hooksPath': '/dev/null',
  'core.fsmonitor': 'false',
  'core.alternateRefsCommand': 'true',
  'transfer.fsckObjects': 'true',
  'fetch.recurseSubmodules': 'false',
  'fetch.prune': 'false',
  'fetch.writeCommitGraph': 'false',
  'maintenance.auto': 'false',
  'gc.auto': '0',
} as const

/** SECURITY: nothing but a local file is fetched from. Settings such as protocol.ext.allow do not change what a variable says. */
const OWN = { GIT_ALLOW_PROTOCOL: 'file', GIT_NO_LAZY_FETCH: '1', GIT_TERMINAL_PROMPT: '0', LC_ALL: 'C' }

/** Variables that make git use another repository than the one named. */
const ELSEWHERE =
  /^GIT_(DIR|WORK_TREE|INDEX_FILE|COMMON_DIR|NAMESPACE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|CONFIG.*|PREFIX)$/

/** A repository by a path in it, and the environment in which git runs there. */
export type Repository = { readonly path: string; readonly env: Environment }

export type GitOptions = {
  env?: Readonly<Record<string, string>>
  /** What git reads from its stdin. */
  input?: NodeJS.ReadableStream
}

/** Git could not do what was asked. The message is the first one that it printed. */
export class GitError extends Error {
  override readonly name = 'GitError'
}

/** Runs git in a repository and returns its output without the newline at the end. Throws GitError if it fails. */
export async function git(repository: Repository, args: readonly string[], { env, input }: GitOptions = {}): Promise<string> {
  const settings = Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const child = spawn('git', ['-C', repository.path, ...settings, ...args], {
    env: { ...ownEnvironment(repository.env), ...env },
    stdio: 'pipe',
  })
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  // Git may end before it has read all of its input; its exit code says why.
  const sent = input === undefined ? child.stdin.end() : pipeline(input, child.stdin).catch(() => undefined)
  try {
    const [code, out, problems] = await Promise.all([ended, text(child.stdout), text(child.stderr), sent])
    if (code === 0) return out.replace(/\n$/, '')
    throw new GitError(messageOf(problems) ?? `git ${args[0]} failed`)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    throw usage('git is not installed on this machine, and --repo needs it', 'install git, or copy files with `sandglass cp`')
  }
}

/** What the command prints, or undefined if it fails. */
export async function gitOrNothing(repository: Repository, args: readonly string[]): Promise<string | undefined> {
  try {
    return await git(repository, args)
  } catch (error) {
    if (error instanceof GitError) return undefined
    throw error
  }
}

/** Variables with which git runs none of the filter programs that the configuration names. */
export async function withoutFilters(repository: Repository): Promise<Record<string, string>> {
  const drivers = new Set((await settingNames(repository, '^filter\\.')).map(name => name.slice(0, name.lastIndexOf('.'))))
  const settings = [...drivers].flatMap(driver => [
    [`${driver}.clean`, ''],
    [`${driver}.smudge`, ''],
    [`${driver}.process`, ''],
    [`${driver}.required`, 'false'],
  ])
  const variables = settings.flatMap(([name = '', value = ''], at) => [
    [`GIT_CONFIG_KEY_${at}`, name],
    [`GIT_CONFIG_VALUE_${at}`, value],
  ])
  return { ...Object.fromEntries(variables), GIT_CONFIG_COUNT: String(settings.length) }
}

/**
 * True if git would fetch objects that are missing. SECURITY: the remote to fetch from has a program of the repository's choice, and git before
 * 2.39.4 cannot be told not to fetch. Ask this first: almost any other command may fetch.
 */
export const isPartialClone = async (repository: Repository): Promise<boolean> =>
  (await settingNames(repository, '^(remote\\..*\\.promisor|extensions\\.partialclone)$')).length > 0

async function settingNames(repository: Repository, pattern: string): Promise<string[]> {
  const names = await gitOrNothing(repository, ['config', '--null', '--name-only', '--get-regexp', pattern])
  return names?.split('\0').filter(name => name !== '') ?? []
}

function ownEnvironment(env: Environment): Environment {
  const kept = Object.entries(env).filter(([name]) => !ELSEWHERE.test(name))
  return { ...Object.fromEntries(kept), ...OWN }
}

const messageOf = (problems: string) =>
  problems
    .split('\n')
    .find(line => /^(fatal|error):/.test(line))
    ?.replace(/^(fatal|error): /, '')
