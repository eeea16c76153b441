// Replaces surrogates in the query of a request target, percent-encoded ones included.

interface QuerySecret {
  readonly name: string
  readonly value: string
  readonly surrogate: string
}

export interface MaskedQuery {
  readonly target: string
  /** The name of the secret, once for each insertion. */
  readonly inserted: readonly string[]
}

export function maskQuery(secrets: readonly QuerySecret[], target: string): MaskedQuery {
  const question = target.indexOf('?')
  if (question === -1) return { target, inserted: [] }
  let query = target.slice(question + 1)
  const inserted: string[] = []
  for (const { name, value, surrogate } of secrets) {
    const replaced = replaceDecoded(query, surrogate, encodeURIComponent(value))
    query = replaced.text
    for (let i = 0; i < replaced.count; i++) inserted.push(name)
  }
  return { target: inserted.length === 0 ? target : target.slice(0, question + 1) + query, inserted }
}

/** Searches in the decoded text, and replaces what stands at that place of the encoded one. */
function replaceDecoded(text: string, surrogate: string, encodedValue: string): { text: string; count: number } {
  const units = text.match(/%[0-9A-Fa-f]{2}|./gs) ?? []
  const decoded = units.map(unit => (unit.length === 3 ? String.fromCharCode(Number.parseInt(unit.slice(1), 16)) : unit)).join('')
  const pieces: string[] = []
  let position = 0
  let count = 0
  for (let found = decoded.indexOf(surrogate); found !== -1; found = decoded.indexOf(surrogate, position)) {
    pieces.push(...units.slice(position, found), encodedValue)
    position = found + surrogate.length
    count++
  }
  return { text: pieces.join('') + units.slice(position).join(''), count }
}
