// A mistyped name of an image that is here looks like one of an image that a registry should have.
import { nearest, SandglassError } from '@sandglass/contract'
import { allReferences } from '../../store/images.ts'
import type { ImageWorld } from '../context.ts'
import { DOCKER_HUB, type Reference } from '../reference.ts'

/** The failure of a pull, with the image of the store that was probably meant. */
export async function withMeantImage({ store }: ImageWorld, wanted: Reference, error: unknown): Promise<unknown> {
  if (!(error instanceof SandglassError) || wanted.digest !== null) return error
  const word = shortForm(wanted.name)
  const known = [...(await allReferences(store)).map(shortForm), 'host'].filter(name => name !== word)
  const ownPart = word.slice(word.lastIndexOf('/') + 1)
  const meant = nearest(word, known, Math.max(1, Math.floor(ownPart.length / 3)))
  if (meant === null) return error
  const next = `did you mean ${meant}, which is here?`
  const options = { cause: error, ...(error.requestId === undefined ? {} : { requestId: error.requestId }) }
  if (error.is('IMAGE_NOT_FOUND')) return new SandglassError('IMAGE_NOT_FOUND', { ...error.detail, next }, options)
  if (error.is('REGISTRY_DENIED')) return new SandglassError('REGISTRY_DENIED', { ...error.detail, next }, options)
  if (error.is('REGISTRY_FAILED')) return new SandglassError('REGISTRY_FAILED', { ...error.detail, next }, options)
  return error
}

/** How people write it: without what every name of Docker Hub has in front, and without the tag that is meant where there is none. */
const shortForm = (name: string): string => name.replace(new RegExp(`^${DOCKER_HUB}/(library/)?`), '').replace(/:latest$/, '')
