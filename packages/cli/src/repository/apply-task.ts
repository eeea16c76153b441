// Takes the commits of a task into a local repository, and says where they are.
import type { SandboxClient, TaskInfo } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { printable } from '../output/printable.ts'
import { type Applied, applyBundle, branchOf } from './apply-bundle.ts'

/** `path` is a path in the repository. */
export async function applyTask(client: SandboxClient, task: TaskInfo, path: string, { env, say }: Context): Promise<Applied> {
  const bundle = await client.tasks.bundle(task.id)
  const applied = await applyBundle({ path, env }, { id: task.id, branch: task.branch ?? branchOf(task.id) }, bundle)
  say(appliedText(applied))
  return applied
}

function appliedText({ branch, base, commits, changes }: Applied): string {
  const count = commits === 1 ? '1 commit' : `${commits} commits`
  const what = changes === '' ? count : `${count}, ${changes}`
  return `the branch ${branch} has the work of the agent: ${what}\n  next: git diff ${printable(base)}...${branch}\n`
}
