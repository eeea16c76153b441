// Authentication at a registry: parses WWW-Authenticate, writes Authorization, and keeps credentials out of messages.

export interface Challenge {
  readonly scheme: 'basic' | 'bearer'
  readonly params: Readonly<Record<string, string>>
}

export interface Credentials {
  readonly username?: string | undefined
  readonly password?: string | undefined
  /** Value of the Authorization header, '' for none. */
  readonly authorization: string
}

/** The supported challenge of a header, bearer before basic. Null if there is none. */
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

/** The Authorization header for a username and password, '' without a username. */
export function basicOf({ username, password }: Pick<Credentials, 'username' | 'password'>): string {
  return username === undefined ? '' : `Basic ${Buffer.from(`${username}:${password ?? ''}`).toString('base64')}`
}

/**
 * Returns a registry's message, or '' if it contains a credential.
 * SECURITY: some registries repeat the rejected request, and the message is shown to callers who may not know the credentials.
 */
export function withoutCredentials(message: string, credentials: Credentials): string {
  const { password = '', authorization } = credentials
  const values = [basicOf(credentials), authorization].map(header => header.replace(/^\w+ /, '').replace(/=+$/, ''))
  // Compared in lower case: URLs convert host names to it.
  const text = message.toLowerCase()
  const hasSecret = [password, encodeURIComponent(password), ...values].some(
    secret => secret !== '' && text.includes(secret.toLowerCase()),
  )
  return hasSecret ? '' : message
}

function paramsIn(text: string): Record<string, string> {
  const params: [string, string][] = []
  for (const [, name = '', quoted, plain] of text.matchAll(/([a-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/gi))
    params.push([name.toLowerCase(), quoted?.replace(/\\(.)/g, '$1') ?? plain ?? ''])
  return Object.fromEntries(params)
}
