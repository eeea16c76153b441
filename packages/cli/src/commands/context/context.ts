// `sandglass context`: the flags of its actions, and their files.
import type { Command } from '../../command.ts'
import { type Actions, runAction } from '../../parser/actions.ts'

const ACTIONS: Actions = {
  ls: () => import('./ls.ts'),
  show: () => import('./show.ts'),
  export: () => import('./export.ts'),
  rm: () => import('./rm.ts'),
}

export const command: Command = {
  summary: 'Show, export and remove conversations with coding agents',
  usage: ['ls', 'show ID', 'export ID -o FOLDER', 'rm ID... [-f]'],
  about: `A context is a conversation: \`sandglass run --context ID\` begins or continues it. It has a session of its own, which is stopped
between tasks and keeps its files.

show prints requests and answers side by side.

export writes context.json, the state of each agent in a folder of its name, and network-sandbox.log into FOLDER. Only you can read them.

rm removes a context with its session, its tasks and its files.`,
  options: {
    output: { type: 'string', short: 'o', only: 'export', value: 'FOLDER', isPath: true, about: 'export: folder to write to' },
    force: { type: 'boolean', short: 'f', only: 'rm', about: 'rm: do not ask, and ignore contexts that do not exist' },
  },
  completes: Object.keys(ACTIONS),
  namesAfter: { show: ['context'], export: ['context'], rm: ['context...'] },
  changes: ['rm'],
  run: runAction('context', ACTIONS),
}
