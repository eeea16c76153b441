// Basic credentials: the token is inside base64, as git, pip and curl -u send it.

/** The scheme in any case, both alphabets, and any padding: servers accept all of these. */
const BASIC = /^[ \t]*basic[ \t]+([A-Za-z0-9+/_-]+)=*[ \t]*$/i
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const CONTROL = /[\0-\x1f\x7f]/

/** User name and password, one character per byte; null if the header is not Basic. */
export function decodeBasic(header: string): string | null {
  const encoded = BASIC.exec(header)?.[1]
  if (encoded === undefined) return null
  const credentials = Buffer.from(encoded, 'base64').toString('latin1')
  // SECURITY: a server that ends the text at a NUL would accept another password in front of the surrogate.
  return CONTROL.test(credentials) ? null : credentials
}

/** The text is UTF-8 (RFC 7617). Null for a value with a control character, which Basic credentials cannot have. */
export function insertInBasic(
  credentials: string,
  secret: { readonly value: string; readonly surrogate: string },
): { text: string; count: number } | null {
  if (CONTROL.test(secret.value)) return null
  const parts = credentials.split(secret.surrogate)
  const replaced = parts.join(Buffer.from(secret.value).toString('latin1'))
  return { text: `Basic ${Buffer.from(replaced, 'latin1').toString('base64')}`, count: parts.length - 1 }
}
