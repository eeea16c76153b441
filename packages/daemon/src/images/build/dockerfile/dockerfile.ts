// A Dockerfile as a list of instructions. What the engine gets is written anew from that list, one line for each, so that it cannot
// read anything else in the file than what was read here.
import { SandglassError } from '@sandglass/contract'
import { expand } from './expand.ts'

export interface Instruction {
  /** Where it begins, for messages. */
  readonly line: number
  /** In capitals. */
  readonly word: string
  readonly rest: string
}

export interface Dockerfile {
  /** What joins a line to the next. */
  readonly joiner: '\\' | '`'
  readonly instructions: readonly Instruction[]
}

const DIRECTIVE = /^#[ \t]*([a-zA-Z]\w*)[ \t]*=[ \t]*(.+?)[ \t]*$/
const COMMENT = /^[ \t]*#/
const HEREDOC = /(^|\s)\d*<<-?[^\s<]/
const WITH_HEREDOC = ['RUN', 'COPY', 'ADD', 'ONBUILD']

/** `name` is what the file is called in messages. */
export function parseDockerfile(name: string, text: string): Dockerfile {
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/)
  const joiner = joinerOf(name, lines)
  const isContinued = joiner === '\\' ? /\\[ \t]*$/ : /`[ \t]*$/
  const instructions: Instruction[] = []
  for (let at = 0; at < lines.length; at++) {
    const line = at + 1
    let whole = (lines[at] ?? '').trimStart()
    if (whole === '' || COMMENT.test(whole)) continue
    while (isContinued.test(whole)) {
      whole = whole.replace(isContinued, '')
      // Comments and empty lines inside an instruction are no part of it.
      do at++
      while (at < lines.length && (COMMENT.test(lines[at] ?? '') || (lines[at] ?? '').trim() === ''))
      if (at >= lines.length) break
      whole += lines[at] ?? ''
    }
    const [, word = '', rest = ''] = /^(\S+)\s*([\s\S]*)$/.exec(whole.trim()) ?? []
    if (!/^[a-zA-Z]+$/.test(word)) throw wrong(name, line, `has ${JSON.stringify(word)}, which is no instruction`)
    // The end may differ from what was looked at above by some other kind of space.
    if (rest.endsWith(joiner)) throw wrong(name, line, `ends in ${joiner}, which would join it to the next line`)
    // A break that some tool, but not this one, takes for the end of a line would begin an instruction that was not seen.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
    if (/[\u0000\r\u000b\u000c\u0085\u2028\u2029]/.test(rest)) throw wrong(name, line, 'has a control character')
    // Variables have no value where an engine that knows here-documents looks for them; the lines of one would not be instructions for it.
    if (WITH_HEREDOC.includes(word.toUpperCase()) && [rest, expand(rest, new Map())].some(text => HEREDOC.test(text)))
      throw wrong(name, line, 'has a here-document, which the builder does not know', 'write the lines with && and \\ instead')
    instructions.push({ line, word: word.toUpperCase(), rest })
  }
  return { joiner, instructions }
}

export const wrong = (name: string, line: number, issue: string, next = 'fix the Dockerfile') =>
  new SandglassError('INVALID_REQUEST', { issue: `${name} line ${line} ${issue}`, next })

/** Directives stand in front of everything else. Those that choose another builder have no meaning here. */
function joinerOf(name: string, lines: readonly string[]): Dockerfile['joiner'] {
  let joiner: Dockerfile['joiner'] = '\\'
  for (const [at, text] of lines.entries()) {
    const [, key, value] = DIRECTIVE.exec(text) ?? []
    if (key === undefined) break
    if (key.toLowerCase() !== 'escape') continue
    if (value !== '\\' && value !== '`') throw wrong(name, at + 1, 'has an escape that is neither \\ nor `')
    joiner = value
  }
  return joiner
}
