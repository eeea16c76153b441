// `sandglass agent`: the flags of its actions, and their files.
import type { Command } from '../../command.ts'
import { type Actions, runAction } from '../../parser/actions.ts'

const ACTIONS: Actions = {
  ls: () => import('./ls.ts'),
  install: () => import('./install.ts'),
  rm: () => import('./rm.ts'),
}

export const command: Command = {
  summary: 'List, install and remove coding agents',
  usage: ['ls', 'install AGENT [--version VERSION]', 'rm AGENT'],
  about: `AGENT is claude, codex or opencode. The first session or task with an agent installs it; install does that before, or changes the
version that new sessions get.

install takes the version that this release of Sandglass was tested with, or the one of --version. Sessions that exist keep theirs.

rm removes the installed versions that no session uses.`,
  options: {
    version: {
      type: 'string',
      only: 'install',
      value: 'VERSION',
      suggested: ['latest'],
      about: 'install: a version such as 1.2.3, or latest',
    },
  },
  completes: Object.keys(ACTIONS),
  namesAfter: { install: ['agent'], rm: ['agent'] },
  changes: ['install', 'rm'],
  run: runAction('agent', ACTIONS),
}
