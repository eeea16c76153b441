/** The known word that `word` is most likely a typing error of; null if none is within `maxEdits`. Free of zod, for the command line. */
export function nearest(
  word: string,
  known: readonly string[],
  maxEdits = Math.max(1, Math.floor(word.length / 3)),
): string | null {
  let best: { word: string; distance: number } | null = null
  for (const candidate of known) {
    const distance = editDistance(word, candidate)
    if (best === null || distance < best.distance) best = { word: candidate, distance }
  }
  return best !== null && best.distance <= maxEdits ? best.word : null
}

/** Counts insertions, deletions, replacements and swaps of neighbours. */
function editDistance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)]
  const at = (i: number, j: number) => rows[i]?.[j] ?? Number.POSITIVE_INFINITY
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    rows.push(row)
    for (let j = 1; j <= b.length; j++) {
      const replaced = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1)
      const isSwap = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      row.push(Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, replaced, isSwap ? at(i - 2, j - 2) + 1 : Number.POSITIVE_INFINITY))
    }
  }
  return at(a.length, b.length)
}
