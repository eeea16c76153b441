// Finds many byte strings at once: the search behind replacement in bodies.

export interface Replacement {
  readonly from: Buffer
  readonly to: Buffer
}

export interface Match {
  readonly start: number
  readonly replacement: Replacement
}

export interface Patterns {
  /** True if a replacement has another length than what it replaces. */
  readonly changesLength: boolean
  /** The first match that starts at `from` or later; of several with the same start, the longest. */
  find(buffer: Buffer, from: number): Match | null
  /**
   * Start of an end of the buffer, at `from` or later, that may be the beginning of a pattern. SECURITY: it depends on the lengths of the patterns
   * and never on their bytes. Otherwise whoever sees how much is held back could find a value, byte by byte, by sending guesses.
   */
  findHeldEnd(buffer: Buffer, from: number): number
}

/**
 * The search of Wu and Manber: the last two bytes of a window as long as the shortest pattern tell how far the window can move. Bytes that are
 * in no pattern are mostly skipped, so that a large download costs little. Patterns have at least two bytes; the first of equal ones is used.
 */
export function compilePatterns(replacements: readonly Replacement[]): Patterns {
  const unique = [...new Map(replacements.toReversed().map(item => [item.from.toString('latin1'), item])).values()]
  const shortest = Math.min(...unique.map(({ from }) => from.length))
  if (unique.length === 0 || shortest < 2) throw new Error('a pattern needs at least two bytes')
  const byLength = unique.toSorted((a, b) => b.from.length - a.from.length)
  const shifts = new Uint8Array(65_536).fill(Math.min(shortest - 1, 255))
  const endings = new Map<number, Replacement[]>()
  for (const replacement of byLength) {
    for (let end = 1; end < shortest; end++) {
      const block = blockAt(replacement.from, end)
      shifts[block] = Math.min(shifts[block] ?? 0, shortest - 1 - end)
      if (end === shortest - 1) endings.set(block, [...(endings.get(block) ?? []), replacement])
    }
  }

  const longest = byLength[0]?.from.length ?? 0
  const isOrdinary = unique.every(({ from }) => from.every(byte => ORDINARY[byte] === 1))
  const isHeld = (byte: number) => !isOrdinary || ORDINARY[byte] === 1

  return {
    changesLength: unique.some(({ from, to }) => from.length !== to.length),
    find(buffer, from) {
      let end = from + shortest - 1
      while (end < buffer.length) {
        const block = blockAt(buffer, end)
        const shift = shifts[block] ?? 0
        if (shift === 0) {
          const start = end - shortest + 1
          const replacement = endings.get(block)?.find(candidate => isAt(candidate.from, buffer, start))
          if (replacement !== undefined) return { start, replacement }
        }
        end += shift === 0 ? 1 : shift
      }
      return null
    },
    findHeldEnd(buffer, from) {
      const earliest = Math.max(from, buffer.length - longest + 1)
      let start = buffer.length
      while (start > earliest && isHeld(buffer[start - 1] ?? 0)) start -= 1
      return start
    },
  }
}

/** What tokens, JSON escapes, percent-encoding and base64 consist of. Text that ends in another character is never held back. */
const ORDINARY = Uint8Array.from({ length: 256 }, (_, byte) => (/[A-Za-z0-9+/=_%.~\\-]/.test(String.fromCharCode(byte)) ? 1 : 0))

const blockAt = (buffer: Buffer, end: number): number => ((buffer[end - 1] ?? 0) << 8) | (buffer[end] ?? 0)

const isAt = (pattern: Buffer, buffer: Buffer, start: number): boolean =>
  buffer[start] === pattern[0] &&
  start + pattern.length <= buffer.length &&
  buffer.compare(pattern, 0, pattern.length, start, start + pattern.length) === 0
