// The prompt of a task: from -p, or from stdin.
import { LIMITS } from '@sandglass/contract/tables'
import { usage } from '../parser/parse.ts'

/** How -p, and an argument, say that the prompt comes from stdin. */
const STDIN = '-'

/** A character has at most four bytes. */
const MAX_BYTES = LIMITS.prompt_characters.max * 4

/**
 * Reads the prompt that -p and the arguments name; undefined if there is none. Stdin is read to its end, without the newline at the end.
 */
export async function readPrompt(
  flag: string | undefined,
  args: readonly string[],
  stdin: AsyncIterable<Uint8Array> & { isTTY?: boolean } = process.stdin,
): Promise<string | undefined> {
  const [argument, ...more] = args
  if (argument !== undefined && (argument !== STDIN || more.length > 0))
    throw usage(`unexpected argument ${more[0] ?? argument}: write the prompt after -p in quotes, and an image after --image`)
  if (argument === STDIN && flag !== undefined && flag !== STDIN) throw usage('the prompt is given twice: -p TEXT and -')
  if (argument === undefined && flag === undefined) return undefined
  return checkedPrompt(argument === STDIN || flag === STDIN ? await piped(stdin) : (flag ?? ''))
}

/** Throws if the daemon would refuse the prompt. */
export function checkedPrompt(prompt: string, what = 'the prompt'): string {
  if (prompt.trim() === '') throw usage(`${what} is empty`)
  const characters = [...prompt].length
  const { max } = LIMITS.prompt_characters
  if (characters > max) throw tooLong(what, `has ${characters} characters; at most ${max} are possible`)
  if (prompt.includes('\0')) throw usage(`${what} has a NUL character`)
  return prompt
}

async function piped(stdin: AsyncIterable<Uint8Array> & { isTTY?: boolean }): Promise<string> {
  if (stdin.isTTY) process.stderr.write('write the prompt, then Ctrl-D:\n')
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of stdin) {
    pieces.push(piece)
    bytes += piece.length
    if (bytes > MAX_BYTES + 2) throw tooLong('the prompt', `has more than ${LIMITS.prompt_characters.max} characters`)
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(pieces)).replace(/\r?\n$/, '')
  } catch (error) {
    if (error instanceof TypeError) throw usage('the prompt is not UTF-8 text')
    throw error
  }
}

const tooLong = (what: string, issue: string) =>
  usage(`${what} ${issue}`, 'put longer text into a file, send it with --file LOCAL:PATH, and name PATH in the prompt')
