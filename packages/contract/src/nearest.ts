/** The known word with the smallest edit distance to a mistyped one; null if none is within `maxEdits`. */
export function nearest(
  word: string,
  known: readonly string[],
  maxEdits = Math.max(2, Math.ceil(word.length / 2)),
): string | null {
  let best: { word: string; distance: number } | null = null
  for (const candidate of known) {
    const distance = editDistance(word, candidate)
    if (best === null || distance < best.distance) best = { word: candidate, distance }
  }
  return best !== null && best.distance <= maxEdits ? best.word : null
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const substituted = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(substituted, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
