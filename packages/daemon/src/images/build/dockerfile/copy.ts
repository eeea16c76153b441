// COPY and ADD: where they take their files from. What the engine would read as something else than is read here is refused.
import { type Instruction, wrong } from './dockerfile.ts'

/** ASCII alone: the engine takes the single bytes of other letters for spaces. */
const FLAG = /^--([a-z][a-z-]*)(?:=([!#-&(-[\]^_a-~]*))?(?=[ \t]|$)/
const PLAIN_SOURCE = /^[\w ./*?[\]@+,=~%:-]*$/

export interface SourceImage {
  readonly before: string
  readonly image: string
  readonly after: string
}

/** The image in COPY --from=IMAGE; nothing where it is one of the stages before. */
export function sourceImage(name: string, instruction: Instruction, stagesBefore: readonly string[]): SourceImage | undefined {
  const { from } = readFlags(name, instruction)
  if (!from) return undefined
  const { value: image, at } = from
  if (image === '' || image.includes('$'))
    throw wrong(name, instruction.line, 'has a --from that is neither a stage nor an image')
  const isStage = stagesBefore.includes(image.toLowerCase()) || (/^\d+$/.test(image) && Number(image) < stagesBefore.length)
  if (isStage) return undefined
  return { before: instruction.rest.slice(0, at), image, after: instruction.rest.slice(at + image.length) }
}

/** What ONBUILD leaves for a later build, where no stage and no image is known. */
export function refuseLater(name: string, { line, rest }: Instruction, fetches: boolean): void {
  const [, word = '', more = ''] = /^([a-zA-Z]+)(?:[ \t]+(.*))?$/.exec(rest) ?? []
  if (word === '') throw wrong(name, line, 'leaves something else than an instruction to a later build')
  const inner = { line, word: word.toUpperCase(), rest: more.trim() }
  if (inner.word === 'ONBUILD') refuseLater(name, inner, fetches)
  if (inner.word !== 'COPY' && inner.word !== 'ADD') return
  if (readFlags(name, inner).from)
    throw wrong(name, line, 'copies from an image in a later build', 'copy in the Dockerfile itself')
  if (inner.word === 'ADD') refuseFetch(name, inner, fetches)
}

/**
 * SECURITY: what an address names is fetched by the engine itself, from its own network and with its machine's own services in reach, whatever
 * network the steps have. A source that is not plain text could become one.
 */
export function refuseFetch(name: string, instruction: Instruction, fetches: boolean): void {
  if (fetches) return
  const { files } = readFlags(name, instruction)
  const sources = files.startsWith('[') ? jsonWords(files) : files.split(/\s+/)
  if (sources.slice(0, -1).some(source => !PLAIN_SOURCE.test(source) || source.includes('://')))
    throw wrong(
      name,
      instruction.line,
      'has an ADD that may fetch from an address, which the engine would do from its own machine’s network',
      'use COPY for files, or RUN curl; images.build_network host allows it',
    )
}

/**
 * SECURITY: the engine removes quotes and backslashes before it compares the name of a flag, so that --fr"om"= is --from= for it. It would look
 * for that image among its own.
 */
function readFlags(name: string, { line, word, rest }: Instruction): { from?: { value: string; at: number }; files: string } {
  let from: { value: string; at: number } | undefined
  let files = rest
  while (files.startsWith('--')) {
    const [whole = '', flag, value = ''] = FLAG.exec(files) ?? []
    if (flag === undefined)
      throw wrong(
        name,
        line,
        `has a flag of ${word} that is not --name=value in plain letters`,
        'write it without quotes and escapes',
      )
    if (flag === 'from') {
      if (from) throw wrong(name, line, 'has --from twice')
      from = { value, at: rest.length - files.length + whole.length - value.length }
    }
    files = files.slice(whole.length).trimStart()
  }
  return from ? { from, files } : { files }
}

function jsonWords(text: string): string[] {
  try {
    return (JSON.parse(text) as unknown[]).map(String)
  } catch {
    return [text, ''] // not JSON: taken as one source, and refused unless it is plain
  }
}
