// JSON replies. SECURITY: a sandbox can make a text or a list very long, so long fields are encoded in pieces and the event loop runs in between.
import { setImmediate as turn } from 'node:timers/promises'

const ITEMS_AT_ONCE = 1000
const CHARACTERS_AT_ONCE = 256 * 1024

/** The same bytes as JSON.stringify. Only top-level fields are split: no other field can be long. */
export async function jsonBytes(reply: unknown): Promise<string | Buffer> {
  if (!isLong(reply)) return JSON.stringify(reply)
  const pieces: Buffer[] = []
  let separator = '{'
  for (const [name, value] of Object.entries(reply)) {
    if (value === undefined) continue
    pieces.push(Buffer.from(`${separator}${JSON.stringify(name)}:`))
    separator = ','
    for (const piece of fieldPieces(value)) {
      pieces.push(Buffer.from(piece))
      await turn()
    }
  }
  pieces.push(Buffer.from('}'))
  return Buffer.concat(pieces)
}

function isLong(reply: unknown): reply is Record<string, unknown> {
  if (typeof reply !== 'object' || reply === null || Array.isArray(reply)) return false
  return Object.values(reply).some(isLongField)
}

const isLongField = (value: unknown) =>
  (typeof value === 'string' && value.length > CHARACTERS_AT_ONCE) || (Array.isArray(value) && value.length > ITEMS_AT_ONCE)

function fieldPieces(value: unknown): Iterable<string> {
  if (!isLongField(value)) return [JSON.stringify(value)]
  return typeof value === 'string' ? textPieces(value) : listPieces(value as readonly unknown[])
}

function* textPieces(text: string): Generator<string> {
  yield '"'
  for (let from = 0, to = 0; from < text.length; from = to) {
    to = endOfPiece(text, from)
    yield JSON.stringify(text.slice(from, to)).slice(1, -1)
  }
  yield '"'
}

function* listPieces(items: readonly unknown[]): Generator<string> {
  for (let from = 0; from < items.length; from += ITEMS_AT_ONCE) {
    const piece = JSON.stringify(items.slice(from, from + ITEMS_AT_ONCE)).slice(1, -1)
    yield `${from === 0 ? '[' : ','}${piece}`
  }
  yield ']'
}

/** Not between the two halves of a surrogate pair, which would be escaped separately. */
function endOfPiece(text: string, from: number): number {
  const end = from + CHARACTERS_AT_ONCE
  const last = text.charCodeAt(end - 1)
  return last >= 0xd800 && last <= 0xdbff ? end + 1 : end
}
