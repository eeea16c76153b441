// What a registry is shown to be let in, and whether it has put that into what it says.

export interface Credentials {
  readonly username?: string | undefined
  readonly password?: string | undefined
  /** As it is in the header, '' for nothing. */
  readonly authorization: string
}

/** '' for nothing to show. */
export function basicOf({ username, password }: Pick<Credentials, 'username' | 'password'>): string {
  return username === undefined ? '' : `Basic ${Buffer.from(`${username}:${password ?? ''}`).toString('base64')}`
}

/**
 * What a registry says, or '' when any credential is in it.
 * SECURITY: it is shown to whoever may pull, who need not know them; some registries repeat the request that they refuse.
 */
export function withoutCredentials(said: string, credentials: Credentials): string {
  const { password = '', authorization } = credentials
  const values = [basicOf(credentials), authorization].map(header => header.replace(/^\w+ /, '').replace(/=+$/, ''))
  // Names of hosts come in lower case.
  const text = said.toLowerCase()
  const isTold = [password, encodeURIComponent(password), ...values].some(
    secret => secret !== '' && text.includes(secret.toLowerCase()),
  )
  return isTold ? '' : said
}
