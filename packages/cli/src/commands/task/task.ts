// `sandglass task`: the flags of its actions, and their files.
import { TASK_STATES } from '@sandglass/contract/tables'
import type { Command } from '../../command.ts'
import { type Actions, runAction } from '../../parser/actions.ts'

const ACTIONS: Actions = {
  ls: () => import('./ls.ts'),
  show: () => import('./show.ts'),
  follow: () => import('./follow.ts'),
  result: () => import('./result.ts'),
  patch: () => import('./patch.ts'),
  apply: () => import('./apply.ts'),
  logs: () => import('./logs.ts'),
  stop: () => import('./stop.ts'),
  rm: () => import('./rm.ts'),
}

export const command: Command = {
  summary: 'Show, follow and stop the tasks of coding agents',
  usage: [
    'ls [--status STATUS] [--context ID] [--group TASK] [--all]',
    'show TASK',
    'follow TASK [--tail N] [--raw]',
    'result TASK',
    'patch TASK',
    'apply TASK [--repo PATH] [--patch]',
    'logs TASK',
    'stop TASK...',
    'rm TASK... [-f]',
  ],
  about: `TASK is an id, the beginning of one, or last for the newest task. \`sandglass run -a AGENT -p PROMPT\` creates a task.

ls shows the newest 20 tasks; --all shows all of them.

follow prints the events of a task from the first one to the end, as \`run\` does. Ctrl-C ends the view; the task goes on. Exit code: that of
the task, as for \`run\`.

result prints the answer of the agent. Exit code: that of the task.

patch prints what the task has changed in its repository.

apply takes the commits of the task into a git repository, as the branch sandglass/TASK. Nothing is checked out, and no other branch changes.

logs prints the error output of the agent.

stop ends the agent. Its events, its files and its conversation stay: \`sandglass run --context ID\` continues it.

rm removes a task that has ended, with its events; one that was run without --context also with its session and files.`,
  options: {
    status: { type: 'string', only: 'ls', choices: TASK_STATES, about: 'ls: only tasks in this state' },
    context: { type: 'string', only: 'ls', value: 'ID', names: 'context', about: 'ls: only tasks of this context' },
    group: { type: 'string', only: 'ls', value: 'TASK', names: 'task', about: 'ls: only attempts and agents of the same run' },
    all: { type: 'boolean', only: 'ls', short: 'a', about: 'ls: all tasks' },
    tail: { type: 'string', only: 'follow', value: 'N', about: 'follow: begin with the last N events' },
    raw: { type: 'boolean', only: 'follow', about: "follow: print the agent's own lines" },
    repo: {
      type: 'string',
      only: 'apply',
      value: 'PATH',
      isPath: true,
      about: 'apply: the repository; that of the current folder by default',
    },
    patch: { type: 'boolean', only: 'apply', about: 'apply: print the patch as well' },
    force: { type: 'boolean', short: 'f', only: 'rm', about: 'rm: stop a task that runs, and ignore tasks that do not exist' },
  },
  completes: Object.keys(ACTIONS),
  namesAfter: {
    ...Object.fromEntries(['show', 'follow', 'result', 'patch', 'apply', 'logs'].map(action => [action, ['task'] as const])),
    stop: ['task...'],
    rm: ['task...'],
  },
  changes: ['stop', 'rm'],
  run: runAction('task', ACTIONS),
}
