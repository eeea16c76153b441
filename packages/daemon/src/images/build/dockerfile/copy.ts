// Finds the source images and URLs of COPY and ADD. Text that the engine might parse differently is refused.
import { type Instruction, invalidInstruction } from './dockerfile.ts'

/** ASCII only: the engine treats single bytes of other characters as spaces. */
const FLAG = /^--([a-z][a-z-]*)(?:=([!#-&(-[\]^_a-~]*))?(?=[ \t]|$)/
const PLAIN_SOURCE = /^[\w ./*?[\]@+,=~%:-]*$/

export interface SourceImage {
  readonly before: string
  readonly image: string
  readonly after: string
}

/** The image in COPY --from=IMAGE; undefined if it names an earlier stage. */
export function sourceImage(name: string, instruction: Instruction, stagesBefore: readonly string[]): SourceImage | undefined {
  const { from } = readFlags(name, instruction)
  if (!from) return undefined
  const { value: image, at } = from
  if (image === '' || image.includes('$'))
    throw invalidInstruction(name, instruction.line, 'has a --from that is neither a stage nor an image')
  const isStage = stagesBefore.includes(image.toLowerCase()) || (/^\d+$/.test(image) && Number(image) < stagesBefore.length)
  if (isStage) return undefined
  return { before: instruction.rest.slice(0, at), image, after: instruction.rest.slice(at + image.length) }
}

/** Refuses an ONBUILD that would copy from an image or fetch a URL in a later build, where it cannot be checked. */
export function refuseLater(name: string, { line, rest }: Instruction, fetches: boolean): void {
  const [, word = '', more = ''] = /^([a-zA-Z]+)(?:[ \t]+(.*))?$/.exec(rest) ?? []
  if (word === '') throw invalidInstruction(name, line, 'has an ONBUILD without an instruction')
  const inner = { line, word: word.toUpperCase(), rest: more.trim() }
  if (inner.word === 'ONBUILD') refuseLater(name, inner, fetches)
  if (inner.word !== 'COPY' && inner.word !== 'ADD') return
  if (readFlags(name, inner).from)
    throw invalidInstruction(name, line, 'copies from an image in ONBUILD', 'copy in the Dockerfile itself')
  if (inner.word === 'ADD') refuseFetch(name, inner, fetches)
}

/**
 * SECURITY: the engine itself fetches the URLs of ADD, from its host's network, whatever network the steps have. A source with variables or
 * quotes could become a URL.
 */
export function refuseFetch(name: string, instruction: Instruction, fetches: boolean): void {
  if (fetches) return
  const { files } = readFlags(name, instruction)
  const sources = files.startsWith('[') ? jsonWords(files) : files.split(/\s+/)
  if (sources.slice(0, -1).some(source => !PLAIN_SOURCE.test(source) || source.includes('://')))
    throw invalidInstruction(
      name,
      instruction.line,
      'has an ADD that may fetch a URL, which the engine would do from its host’s network',
      'use COPY for files, or RUN curl; images.build_network host allows it',
    )
}

/**
 * SECURITY: the engine removes quotes and backslashes before it compares flag names, so it reads --fr"om"= as --from= and would use one of its
 * own images. Such flags are refused.
 */
function readFlags(name: string, { line, word, rest }: Instruction): { from?: { value: string; at: number }; files: string } {
  let from: { value: string; at: number } | undefined
  let files = rest
  while (files.startsWith('--')) {
    const [whole = '', flag, value = ''] = FLAG.exec(files) ?? []
    if (flag === undefined)
      throw invalidInstruction(
        name,
        line,
        `has a flag of ${word} that is not plain --name=value`,
        'write it without quotes and escapes',
      )
    if (flag === 'from') {
      if (from) throw invalidInstruction(name, line, 'has --from twice')
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
    return [text, ''] // not JSON: treated as one source, which must be plain
  }
}
