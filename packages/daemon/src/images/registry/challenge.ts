// WWW-Authenticate: how a registry says what it wants to see.

export interface Challenge {
  readonly scheme: 'basic' | 'bearer'
  readonly params: Readonly<Record<string, string>>
}

/** The one that can be met, of those in a header; bearer before basic. Null when there is none. */
export function parseChallenge(header: string | undefined): Challenge | null {
  if (header === undefined) return null
  const found = [...header.matchAll(/(?:^|,)\s*(basic|bearer)(?=\s|,|$)/gi)]
  const challenges = found.map((match, i) => ({
    scheme: (match[1] ?? '').toLowerCase() as Challenge['scheme'],
    params: paramsIn(header.slice((match.index ?? 0) + match[0].length, found[i + 1]?.index)),
  }))
  return (
    challenges.find(({ scheme, params }) => scheme === 'bearer' && params.realm !== undefined) ??
    challenges.find(({ scheme }) => scheme === 'basic') ??
    null
  )
}

function paramsIn(text: string): Record<string, string> {
  const params: [string, string][] = []
  for (const [, name = '', quoted, plain] of text.matchAll(/([a-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/gi))
    params.push([name.toLowerCase(), quoted?.replace(/\\(.)/g, '$1') ?? plain ?? ''])
  return Object.fromEntries(params)
}
