import type { Command, Context, Input } from '../command.ts'
import { usage } from '../parse.ts'

const ACTIONS = {
  pull: () => import('../image/pull.ts'),
  import: () => import('../image/import.ts'),
  ls: () => import('../image/ls.ts'),
  inspect: () => import('../image/inspect.ts'),
  rm: () => import('../image/rm.ts'),
} as const satisfies Record<string, () => Promise<{ run(input: Input, context: Context): Promise<number> }>>

export const command: Command = {
  summary: 'Bring images into the store, list and remove them',
  usage: ['pull REFERENCE', 'import PATH [--name REFERENCE]', 'ls', 'inspect IMAGE', 'rm IMAGE... [-f]'],
  about: `import takes a docker save archive or an OCI layout, as a tar (also with gzip), as a folder, or from stdin with - as PATH.
IMAGE is a reference like debian:12, an id, or 12 or more characters of one.`,
  options: {
    name: { type: 'string', value: 'REFERENCE', about: 'import: what the image is called, for an archive of one image' },
    force: { type: 'boolean', short: 'f', about: 'rm: do not mind an image that is not there' },
  },
  completes: Object.keys(ACTIONS),
  async run(input, context) {
    const [action = '', ...args] = input.args
    if (!Object.hasOwn(ACTIONS, action)) throw usage(`image is followed by ${Object.keys(ACTIONS).join(', ')}`)
    const { run } = await ACTIONS[action as keyof typeof ACTIONS]()
    return await run({ ...input, args }, context)
  },
}
