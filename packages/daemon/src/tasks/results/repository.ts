// The git repository of a task: it goes in as a bundle, and what the agent changed comes out as a patch and a bundle with a branch.
// Every git command runs in the sandbox. SECURITY: hooks and settings that the agent leaves in the repository take effect there alone.
import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { LIMITS, SANDBOX_HOME, WORKSPACE } from '@sandglass/contract'
import type { TaskRow } from '../../store/tables.ts'
import { tasksOfContext } from '../../store/tasks.ts'
import { downloadFromSession, runInSession, uploadToSession } from '../agent-run/in-session.ts'
import { type TaskContext, taskFolder } from '../context.ts'
import { getUpload } from '../uploads.ts'

const TRANSFER = `${SANDBOX_HOME}/.sandglass-transfer`
const GIT_MS = 10 * 60_000
const IDENTITY = {
  GIT_AUTHOR_NAME: 'Sandglass',
  GIT_AUTHOR_EMAIL: 'agent@sandglass.invalid',
  GIT_COMMITTER_NAME: 'Sandglass',
  GIT_COMMITTER_EMAIL: 'agent@sandglass.invalid',
  GIT_TERMINAL_PROMPT: '0',
}

/** A repository that an earlier task of the context left keeps its work tree; the branches of the bundle are fetched. */
const CLONE = `set -e
cd ${WORKSPACE}
git init -q
git fetch -q --force "$BUNDLE" '+refs/heads/*:refs/remotes/origin/*' HEAD
if ! git rev-parse -q --verify refs/sandglass/base >/dev/null; then
  git checkout -q --force -B "$BRANCH" FETCH_HEAD
  git update-ref refs/sandglass/base FETCH_HEAD
fi
git config user.name >/dev/null || git config user.name "$GIT_AUTHOR_NAME"
git config user.email >/dev/null || git config user.email "$GIT_AUTHOR_EMAIL"
rm -f "$BUNDLE"`

/** Uncommitted changes become one more commit, without touching the agent's own index. */
const COLLECT = `set -e
cd ${WORKSPACE}
git rev-parse -q --verify refs/sandglass/base >/dev/null || exit 10
rm -rf ${TRANSFER}
mkdir -p ${TRANSFER}
export GIT_INDEX_FILE=${TRANSFER}/index
git read-tree HEAD
git add -A
tree=$(git write-tree)
unset GIT_INDEX_FILE
tip=$(git rev-parse HEAD)
if [ "$tree" != "$(git rev-parse 'HEAD^{tree}')" ]; then
  tip=$(git commit-tree "$tree" -p HEAD -m 'Add what the agent has not committed')
fi
base=$(git rev-parse refs/sandglass/base)
[ "$tip" = "$base" ] && exit 10
git update-ref "refs/heads/$BRANCH" "$tip" 2>/dev/null || git update-ref --no-deref "refs/heads/$BRANCH" "$tip"
git diff --binary --no-color --no-ext-diff --no-textconv "$base" "$tip" >${TRANSFER}/patch
git bundle create -q ${TRANSFER}/bundle "$base..refs/heads/$BRANCH"`
const NOTHING_CHANGED = 10

export const branchOf = (task: TaskRow, wanted: string | undefined): string => wanted ?? `sandglass/${task.id}`
/** The branch of the repository that an earlier task of the context has brought in; null for none. */
export async function branchBefore({ sessions }: TaskContext, { id, context_folder }: TaskRow): Promise<string | null> {
  const earlier = await tasksOfContext(sessions.store, context_folder)
  return earlier.findLast(task => task.id !== id && task.branch !== null)?.branch ?? null
}

export const patchPath = (tasks: TaskContext, id: string): string => join(taskFolder(tasks, id), 'patch')
export const bundlePath = (tasks: TaskContext, id: string): string => join(taskFolder(tasks, id), 'bundle')

export async function cloneRepository(
  tasks: TaskContext,
  { sessionId, upload, branch }: { sessionId: string; upload: string; branch: string },
  signal: AbortSignal,
): Promise<void> {
  const { path: source, bytes } = await getUpload(tasks, upload)
  const path = `${TRANSFER}/repository.bundle`
  await uploadToSession(tasks.sessions, sessionId, { path, chunks: createReadStream(source), bytes }, signal)
  await git(tasks, sessionId, CLONE, { BUNDLE: path, BRANCH: branch }, signal)
}

/** False if the agent has changed nothing. */
export async function collectRepository(
  tasks: TaskContext,
  { taskId, sessionId, branch }: { taskId: string; sessionId: string; branch: string },
  signal: AbortSignal,
): Promise<boolean> {
  const exitCode = await git(tasks, sessionId, COLLECT, { BRANCH: branch }, signal)
  if (exitCode === NOTHING_CHANGED) return false
  const maxBytes = LIMITS.upload_bytes.max
  for (const [name, to] of [
    ['patch', patchPath(tasks, taskId)],
    ['bundle', bundlePath(tasks, taskId)],
  ] as const)
    await downloadFromSession(tasks.sessions, sessionId, { path: `${TRANSFER}/${name}`, to, maxBytes }, signal)
  return true
}

async function git(
  { sessions }: TaskContext,
  sessionId: string,
  script: string,
  env: Record<string, string>,
  signal: AbortSignal,
): Promise<number> {
  const spec = { argv: ['sh', '-c', script], env: { ...IDENTITY, ...env }, cwd: WORKSPACE, timeoutMs: GIT_MS }
  const { exitCode, stderr } = await runInSession(sessions, sessionId, spec, signal)
  if (exitCode === 0 || exitCode === NOTHING_CHANGED) return exitCode
  throw new Error(`git failed in the session (exit code ${exitCode}): ${stderr.trim().slice(-500) || 'it printed nothing'}`)
}
