// `sandglass image`: the flags of its actions, and their files.
import type { Command } from '../../command.ts'
import { type Actions, runAction } from '../../parser/actions.ts'
import { BUILDERS } from './builders.ts'

const ACTIONS: Actions = {
  pull: () => import('./pull.ts'),
  build: () => import('./build.ts'),
  hash: () => import('./hash.ts'),
  save: () => import('./save.ts'),
  load: () => import('./import.ts'),
  import: () => import('./import.ts'),
  ls: () => import('./ls.ts'),
  inspect: () => import('./inspect.ts'),
  rm: () => import('./rm.ts'),
}

export const command: Command = {
  summary: 'Pull, build, save, import, list and remove images',
  usage: [
    'pull REFERENCE',
    'build [PATH] [-f DOCKERFILE] [-t REFERENCE]',
    'hash [PATH] [-f DOCKERFILE]',
    'save IMAGE -o FILE',
    'load PATH [--name REFERENCE]',
    'import PATH [--name REFERENCE]',
    'ls',
    'inspect IMAGE',
    'rm IMAGE... [-f]',
  ],
  about: `build sends the files below PATH (the current folder by default) to the daemon, without those that .dockerignore names. A Docker
engine runs the steps if one answers, otherwise sandboxes do. An image of the same content that is not too old is not built again. FROM uses an
image of the store, or pulls it. hash prints the content hash that the build would have.

save writes an image as a tar that import and docker load read; -o - writes to stdout. import and load read an archive of docker save or an OCI
layout: a tar (also compressed with gzip or zstd), a folder, or stdin if PATH is -.

IMAGE is a reference like debian:12, an id, or the first 12 or more characters of an id.`,
  options: {
    file: {
      type: 'string',
      short: 'f',
      only: ['build', 'hash'],
      value: 'PATH',
      isPath: true,
      about: 'build, hash: the Dockerfile; - reads it from stdin',
    },
    output: { type: 'string', short: 'o', only: 'save', value: 'FILE', isPath: true, about: 'save: the file to write' },
    tag: { type: 'string', short: 't', only: 'build', value: 'REFERENCE', about: 'build: reference that the image gets' },
    'build-arg': {
      type: 'string',
      only: ['build', 'hash'],
      multiple: true,
      value: 'NAME=VALUE',
      about: 'build, hash: value of an ARG; NAME alone takes the value from the environment; may be repeated',
    },
    target: { type: 'string', only: ['build', 'hash'], value: 'STAGE', about: 'build, hash: last stage to build' },
    overlay: {
      type: 'string',
      only: 'build',
      value: 'PATH',
      isPath: true,
      about: 'build: file with instructions to add after those of the Dockerfile',
    },
    builder: {
      type: 'string',
      only: 'build',
      value: 'NAME',
      choices: BUILDERS,
      about: 'build: what runs the steps: auto, session (sandboxes, without Docker) or docker',
    },
    entrypoint: {
      type: 'boolean',
      only: 'build',
      about: 'build: add an entrypoint that sets IS_SANDBOX=1; builds with --overlay have it',
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
      only: ['import', 'load'],
      value: 'REFERENCE',
      about: 'import, load: reference that the image gets, for an archive with one image',
    },
    force: { type: 'boolean', short: 'f', only: 'rm', about: 'rm: ignore images that do not exist' },
  },
  completes: Object.keys(ACTIONS),
  namesAfter: { save: ['image'], inspect: ['image'], rm: ['image...'] },
  changes: ['pull', 'build', 'load', 'import', 'rm'],
  run: runAction('image', ACTIONS),
}
