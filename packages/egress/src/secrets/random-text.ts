// Random text from an alphabet, for surrogates.

export type RandomBytes = (count: number) => Buffer

const UPPER = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
const LOWER = 'abcdefghijklmnopqrstuvwxyz'
const DIGITS = '0123456789'

export const UPPER_DIGITS = UPPER + DIGITS
export const ALPHANUMERIC = UPPER + LOWER + DIGITS
export const BASE64 = `${ALPHANUMERIC}+/`
export const BASE64URL = `${ALPHANUMERIC}-_`

/** SECURITY: every character is equally likely. `byte % size` alone would prefer the first characters of the alphabet. */
export function randomText(alphabet: string, length: number, random: RandomBytes): string {
  const limit = 256 - (256 % alphabet.length)
  let text = ''
  while (text.length < length) {
    for (const byte of random(length - text.length)) if (byte < limit) text += alphabet[byte % alphabet.length]
  }
  return text
}

/** The character classes of a text: upper case, lower case, digits, and - and _ for anything else. */
export function alphabetOf(text: string): string {
  const classes = [
    /[A-Z]/.test(text) ? UPPER : '',
    /[a-z]/.test(text) ? LOWER : '',
    /[0-9]/.test(text) ? DIGITS : '',
    /[^A-Za-z0-9]/.test(text) ? '-_' : '',
  ]
  return classes.join('')
}
