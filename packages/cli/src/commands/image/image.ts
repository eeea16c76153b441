// `sandglass image`: the flags of its actions, and their files.
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
  summary: 'Pull, build, import, list and remove images',
  usage: [
    'pull REFERENCE',
    'build [PATH] [-f DOCKERFILE] [-t REFERENCE]',
    'import PATH [--name REFERENCE]',
    'ls',
    'inspect IMAGE',
    'rm IMAGE... [-f]',
  ],
  about: `build sends the files below PATH (the current folder by default) to a Docker engine, without those that .dockerignore names. An
image of the same content that is not too old is not built again. FROM uses an image of the store, or pulls it.

import reads an archive of docker save or an OCI layout: a tar (also compressed with gzip or zstd), a folder, or stdin if PATH is -.

IMAGE is a reference like debian:12, an id, or the first 12 or more characters of an id.`,
  options: {
    file: {
      type: 'string',
      short: 'f',
      only: 'build',
      value: 'PATH',
      isPath: true,
      about: 'build: the Dockerfile; - reads it from stdin',
    },
    tag: { type: 'string', short: 't', only: 'build', value: 'REFERENCE', about: 'build: reference that the image gets' },
    'build-arg': {
      type: 'string',
      only: 'build',
      multiple: true,
      value: 'NAME=VALUE',
      about: 'build: value of an ARG; NAME alone takes the value from the environment; may be repeated',
    },
    target: { type: 'string', only: 'build', value: 'STAGE', about: 'build: last stage to build' },
    overlay: {
      type: 'string',
      only: 'build',
      value: 'PATH',
      isPath: true,
      about: 'build: file with instructions to add after those of the Dockerfile',
    },
    'no-cache': { type: 'boolean', only: 'build', about: 'build: run every step, without the cache' },
    'max-age': {
      type: 'string',
      only: 'build',
      value: 'TIME',
      about: 'build: build again if the image is older than this, like 1d',
    },
    name: {
      type: 'string',
      only: 'import',
      value: 'REFERENCE',
      about: 'import: reference that the image gets, for an archive with one image',
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
  return usage(`image has the actions ${actions.join(', ')}${meant ? `; did you mean ${meant}?` : ''}`)
}
