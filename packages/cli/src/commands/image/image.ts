import type { Command, Context, Input } from '../../command.ts'
import { suggestion, usage } from '../../parser/parse.ts'

const ACTIONS = {
  pull: () => import('./pull.ts'),
  build: () => import('./build.ts'),
  import: () => import('./import.ts'),
  ls: () => import('./ls.ts'),
  inspect: () => import('./inspect.ts'),
  rm: () => import('./rm.ts'),
} as const satisfies Record<string, () => Promise<{ run(input: Input, context: Context): Promise<number> }>>

export const command: Command = {
  summary: 'Bring images into the store or build them, list and remove them',
  usage: [
    'pull REFERENCE',
    'build [PATH] [-f DOCKERFILE] [-t REFERENCE]',
    'import PATH [--name REFERENCE]',
    'ls',
    'inspect IMAGE',
    'rm IMAGE... [-f]',
  ],
  about: `build takes the files below PATH (this folder when absent) that .dockerignore does not name. What was built from the same content
before and is not too old is not built again. A Docker engine does the work; FROM finds its image in the store, or pulls it.

import takes a docker save archive or an OCI layout, as a tar (also with gzip or zstd), as a folder, or from stdin with - as PATH.

IMAGE is a reference like debian:12, an id, or 12 or more characters of one.`,
  options: {
    file: { type: 'string', short: 'f', only: 'build', value: 'PATH', isPath: true, about: 'build: the Dockerfile; - is stdin' },
    tag: { type: 'string', short: 't', only: 'build', value: 'REFERENCE', about: 'build: name of the image' },
    'build-arg': {
      type: 'string',
      only: 'build',
      multiple: true,
      value: 'NAME=VALUE',
      about: 'build: value of an ARG; NAME alone takes it from the environment; may be repeated',
    },
    target: { type: 'string', only: 'build', value: 'STAGE', about: 'build: stage to end with' },
    overlay: {
      type: 'string',
      only: 'build',
      value: 'PATH',
      isPath: true,
      about: 'build: file with instructions to build on top',
    },
    'no-cache': { type: 'boolean', only: 'build', about: 'build: run every step again' },
    'max-age': { type: 'string', only: 'build', value: 'TIME', about: 'build: what is older, like 1d, is built again' },
    name: {
      type: 'string',
      only: 'import',
      value: 'REFERENCE',
      about: 'import: what the image is called, for an archive of one image',
    },
    force: { type: 'boolean', short: 'f', only: 'rm', about: 'rm: ignore images that do not exist' },
  },
  completes: Object.keys(ACTIONS),
  imagesAfter: { inspect: 'one', rm: 'many' },
  changes: ['pull', 'build', 'import', 'rm'],
  async run(input, context) {
    const [action = '', ...args] = input.args
    if (!Object.hasOwn(ACTIONS, action)) throw unknownAction(action)
    const { run } = await ACTIONS[action as keyof typeof ACTIONS]()
    return await run({ ...input, args }, context)
  },
}

function unknownAction(action: string): Error {
  const actions = Object.keys(ACTIONS)
  const meant = suggestion(action, actions)
  return usage(`image is followed by ${actions.join(', ')}${meant ? `; did you mean ${meant}?` : ''}`)
}
