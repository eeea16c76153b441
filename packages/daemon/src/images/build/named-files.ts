// The Dockerfile and the overlay among the files of a build context.
import { SandglassError } from '@sandglass/contract'
import { type BuildContext, RESERVED } from './build-context.ts'

/** A reserved name was made up by the command line, so messages show `what` instead. */
export const shownAs = (path: string, what: string): string => (RESERVED.includes(path) ? what : path)

export function textOf(buildContext: BuildContext, path: string): string {
  const text = buildContext.text(path)
  if (text !== undefined) return text
  throw new SandglassError('FILE_NOT_FOUND', { path, where: 'in the build context' })
}
