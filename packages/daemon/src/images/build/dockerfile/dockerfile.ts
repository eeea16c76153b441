// Parses a Dockerfile into a list of instructions. SECURITY: the engine gets a file that is written from this list, one line per instruction, so
// it cannot read the original file differently.
import { SandglassError } from '@sandglass/contract'
import { expand } from './expand.ts'

export interface Instruction {
  /** Number of its first line, for error messages. */
  readonly line: number
  /** In upper case. */
  readonly word: string
  readonly rest: string
}

export interface Dockerfile {
  /** The character that continues a line, set by the directive `escape`. */
  readonly escapeCharacter: '\\' | '`'
  readonly instructions: readonly Instruction[]
}

const DIRECTIVE = /^#[ \t]*([a-zA-Z]\w*)[ \t]*=[ \t]*(.+?)[ \t]*$/
const COMMENT = /^[ \t]*#/
const HEREDOC = /(^|\s)\d*<<-?[^\s<]/
const WITH_HEREDOC = ['RUN', 'COPY', 'ADD', 'ONBUILD']

/** `name` is the file name in error messages. */
export function parseDockerfile(name: string, text: string): Dockerfile {
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/)
  const escapeCharacter = escapeOf(name, lines)
  const isContinued = escapeCharacter === '\\' ? /\\[ \t]*$/ : /`[ \t]*$/
  const instructions: Instruction[] = []
  for (let at = 0; at < lines.length; at++) {
    const line = at + 1
    let whole = (lines[at] ?? '').trimStart()
    if (whole === '' || COMMENT.test(whole)) continue
    while (isContinued.test(whole)) {
      whole = whole.replace(isContinued, '')
      // Comments and empty lines inside an instruction are skipped.
      do at++
      while (at < lines.length && (COMMENT.test(lines[at] ?? '') || (lines[at] ?? '').trim() === ''))
      if (at >= lines.length) break
      whole += lines[at] ?? ''
    }
    const [, word = '', rest = ''] = /^(\S+)\s*([\s\S]*)$/.exec(whole.trim()) ?? []
    if (!/^[a-zA-Z]+$/.test(word))
      throw invalidInstruction(name, line, `has ${JSON.stringify(word)}, which is not an instruction`)
    // trim() removes more kinds of space than the pattern above allows after the escape character.
    if (rest.endsWith(escapeCharacter))
      throw invalidInstruction(name, line, `ends in ${escapeCharacter}, which would join it to the next line`)
    // Another parser may take one of these for the end of a line and read an instruction that is not seen here.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
    if (/[\u0000\r\u000b\u000c\u0085\u2028\u2029]/.test(rest)) throw invalidInstruction(name, line, 'has a control character')
    // An engine that supports here-documents would not read their lines as instructions. It detects them with variables expanded to nothing.
    if (WITH_HEREDOC.includes(word.toUpperCase()) && [rest, expand(rest, new Map())].some(text => HEREDOC.test(text)))
      throw invalidInstruction(
        name,
        line,
        'has a here-document, which the builder does not support',
        'write the lines with && and \\ instead',
      )
    instructions.push({ line, word: word.toUpperCase(), rest })
  }
  return { escapeCharacter, instructions }
}

export const invalidInstruction = (name: string, line: number, issue: string, next = 'fix the Dockerfile') =>
  new SandglassError('INVALID_REQUEST', { issue: `${name} line ${line} ${issue}`, next })

/** Directives come before everything else. Directives that choose another builder are ignored. */
function escapeOf(name: string, lines: readonly string[]): Dockerfile['escapeCharacter'] {
  let escapeCharacter: Dockerfile['escapeCharacter'] = '\\'
  for (const [at, text] of lines.entries()) {
    const [, key, value] = DIRECTIVE.exec(text) ?? []
    if (key === undefined) break
    if (key.toLowerCase() !== 'escape') continue
    if (value !== '\\' && value !== '`') throw invalidInstruction(name, at + 1, 'has an escape other than \\ and `')
    escapeCharacter = value
  }
  return escapeCharacter
}
