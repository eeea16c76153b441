// What an image of somebody else does in whatever is built from it.
import { refuseLater } from './copy.ts'
import { parseDockerfile, wrong } from './dockerfile.ts'

/**
 * SECURITY: the engine reads each ONBUILD of a base as a Dockerfile of its own, behind all that was checked in the one of the build. One that
 * is not a single line could be joined to an instruction that is not seen here.
 */
export function refuseTriggers(image: string, triggers: readonly string[], fetches: boolean): void {
  const name = `ONBUILD of ${image}`
  for (const trigger of triggers) {
    if (/[\r\n]|\\\s*$/.test(trigger)) throw wrong(name, 1, 'goes on over several lines', 'start from another image')
    const [only, ...more] = parseDockerfile(name, trigger).instructions
    if (!only || more.length > 0) throw wrong(name, 1, 'is not one instruction', 'start from another image')
    refuseLater(name, { line: 1, word: 'ONBUILD', rest: `${only.word} ${only.rest}` }, fetches)
  }
}
