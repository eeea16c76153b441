// Handlers of images.
import type { ImageProgress } from '@sandglass/contract'
import { importArchive } from '../../images/archive/import.ts'
import { saveImage } from '../../images/archive/save.ts'
import { buildImage } from '../../images/build/build.ts'
import { hashBuild } from '../../images/build/hash.ts'
import { pullImage } from '../../images/pull/pull.ts'
import { getImage, listImages, removeImage } from '../../images/store/stored-images.ts'
import { buildMachines } from '../../sessions/builds/build-machines.ts'
import type { Api, Handlers, SseEvent } from '../api.ts'
import { numbered } from '../streams/sse.ts'

export const imageHandlers = ({ context }: Api) => {
  const builds = { ...context, buildMachines: buildMachines(context) }
  return {
    listImages: ({ query }) => listImages(context, query),
    getImage: ({ params }) => getImage(context, params.ref),
    deleteImage: ({ params }) => removeImage(context, params.ref),
    pullImage: async ({ body, signal }) => {
      const { progress, done } = pullImage(context, body.reference, signal)
      return numbered(steps(progress.follow(), done))
    },
    buildImage: async ({ query, headers, request, signal }) =>
      numbered(await buildImage(builds, request.raw, { ...query, build_args: headers['x-build-args'] ?? {} }, signal)),
    hashImage: ({ query, headers, request, signal }) =>
      hashBuild(builds, request.raw, { ...query, build_args: headers['x-build-args'] ?? {} }, signal),
    imageArchive: async ({ params }) => ({
      headers: { 'content-type': 'application/x-tar' },
      chunks: await saveImage(context, params.ref),
    }),
    importImage: async ({ query, request, signal }) => {
      const { progress, done } = await importArchive(context, request.raw, query.reference, signal)
      return numbered(
        steps(
          progress.follow(),
          done.then(items => ({ items })),
        ),
      )
    },
  } satisfies Partial<Handlers>
}

/** Progress events, then the result. A failure of the work fails the stream. */
async function* steps(progress: AsyncIterable<ImageProgress>, done: Promise<unknown>): AsyncGenerator<SseEvent, void, undefined> {
  done.catch(() => undefined) // thrown below, unless the client has disconnected
  for await (const data of progress) yield { event: 'progress', data }
  yield { event: 'done', data: await done }
}
