// `run -a AGENT -p PROMPT`: sends what the task needs, creates it, shows it, and takes its commits.

import type { SandboxClient, TaskInfo, TaskOptions } from '@sandglass/sdk'
import { toSnake } from '@sandglass/sdk'
import type { Context, Input } from '../command.ts'
import { commandExitCode } from '../exec/exit-codes.ts'
import { exitNow } from '../exec/interrupts.ts'
import { printableJson } from '../output/printable.ts'
import { text, texts, usage } from '../parser/parse.ts'
import { applyTask } from '../repository/apply-task.ts'
import { followTasks } from '../task-view/follow-tasks.ts'
import { exitCodeOf, failureText, isGood, successText } from '../task-view/outcome.ts'
import { attemptTable } from '../task-view/task-table.ts'
import { taskFromFlags } from './task-flags.ts'
import { localFile, sendFiles, sendRepository } from './uploads.ts'

/** A failure before the task exists has its own exit code; one after that is 125. */
export async function runTask({ flags, rest }: Input, prompt: string, context: Context): Promise<number> {
  if (rest !== undefined) throw usage('a task has a prompt and no program: leave out what comes after --, or leave out -p')
  const spec = taskFromFlags(flags, prompt)
  const files = texts(flags.file).map(localFile)
  const repository = text(flags.repo)
  const client = await context.connect()
  if (spec.image !== undefined) await (await import('../commands/image/pull.ts')).pullIfMissing(client, spec.image, context)
  const uploads = { ...(await sendRepository(client, repository, context)), ...(await sendFiles(client, files, context)) }
  const tasks = await create(client, { ...spec, ...uploads }, context)
  if (flags.detach) return detached(tasks, repository, context)
  return commandExitCode(async () => {
    const { tasks: ended, signalled } = await followTasks(client, tasks, { stopsTasks: true }, context)
    const code = await showEnd(client, ended, repository, context)
    return signalled ?? code
  }, context)
}

/** Ctrl-C while the request is on its way does not leave a task behind: it is stopped as soon as it exists. */
async function create(client: SandboxClient, spec: TaskOptions, { say }: Context): Promise<TaskInfo[]> {
  let isInterrupted = false
  const onInterrupt = () => {
    if (isInterrupted) exitNow(130)
    isInterrupted = true
  }
  process.on('SIGINT', onInterrupt)
  try {
    const tasks = await client.tasks.create(spec)
    if (!isInterrupted) return tasks
    say('sandglass: stopping the agent\n')
    return await Promise.all(tasks.map(({ id }) => client.tasks.stop(id)))
  } finally {
    process.off('SIGINT', onInterrupt)
  }
}

function detached(tasks: readonly TaskInfo[], repository: string | undefined, { json, print, say }: Context): number {
  for (const task of tasks) print(json ? `${printableJson(toSnake(task))}\n` : `${task.id}\n`)
  const [first] = tasks
  if (first === undefined) return 0
  say(`follow it with \`sandglass task follow ${first.id}\`\n`)
  if (repository !== undefined) say(`when it has ended, \`sandglass task apply ${first.id}\` takes its commits\n`)
  return 0
}

async function showEnd(
  client: SandboxClient,
  tasks: readonly TaskInfo[],
  repository: string | undefined,
  context: Context,
): Promise<number> {
  const { json, print, say } = context
  if (json) for (const task of tasks) print(`${printableJson(toSnake(task))}\n`)
  else if (tasks.length > 1) print(`\n${attemptTable(tasks, process.stdout)}`)
  else for (const task of tasks) say(isGood(task) ? successText(task) : failureText(task))
  if (repository !== undefined)
    for (const task of tasks) {
      if (task.hasPatch) await applyTask(client, task, repository, context)
      else say('the agent has changed nothing in the repository\n')
    }
  return exitCodeOf(tasks)
}
