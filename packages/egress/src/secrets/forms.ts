// The forms in which a server can return a value, each with the text that replaces it.
import type { Replacement } from './replace/patterns.ts'

/**
 * Covered: the bytes of the value; JSON strings; percent-encoding in the usual variants, and forms; base64 in the three positions that the
 * value can have in a longer text, as in Basic credentials, with both alphabets.
 *
 * Not covered: base64 with line breaks, hexadecimal, HTML entities, quoted-printable, UTF-16, encodings of encodings, unusual mixtures of
 * escaped and plain characters, another case of letters, compressed or encrypted data inside a body, a value in several parts.
 */
export function formsOf(value: string, surrogate: string): Replacement[] {
  const bytes = Buffer.from(value)
  const texts = [value, ...jsonForms(value), ...percentForms(value)].map(text => Buffer.from(text))
  // A header carries one byte per character.
  if (!/[^\0-\xff]/.test(value)) texts.push(Buffer.from(value, 'latin1'))
  const to = Buffer.from(surrogate)
  return [...texts.map(from => ({ from, to })), ...base64Forms(bytes, fit(to, bytes.length))]
}

/** The same replacements, with surrogates that are repeated or cut to the length of what they replace. */
export const keepLengths = (forms: readonly Replacement[]): Replacement[] =>
  forms.map(({ from, to }) => ({ from, to: from.length === to.length ? to : fit(to, from.length) }))

function jsonForms(value: string): string[] {
  const plain = JSON.stringify(value).slice(1, -1)
  const ascii = plain.replaceAll(/[^\0-\x7f]/g, escapeUnit)
  return [
    plain,
    ascii,
    plain.replaceAll('/', '\\/'),
    ascii.replaceAll('/', '\\/'),
    plain.replaceAll(/[<>&\u2028\u2029]/g, escapeUnit),
  ]
}

function percentForms(value: string): string[] {
  const component = encodeURIComponent(value)
  const strict = component.replaceAll(/[!'()*]/g, escapeByte)
  const form = new URLSearchParams({ v: value }).toString().slice('v='.length)
  return [component, strict, form].flatMap(text => [text, text.replaceAll(/%[0-9A-F]{2}/g, hex => hex.toLowerCase())])
}

/** Only characters that depend on the value alone: the ones at its edges have bits of the bytes next to it. */
function base64Forms(value: Buffer, surrogate: Buffer): Replacement[] {
  return [0, 1, 2].flatMap(offset => {
    const start = Math.ceil((offset * 8) / 6)
    const end = Math.floor(((offset + value.length) * 8) / 6)
    const encode = (bytes: Buffer, alphabet: 'base64' | 'base64url') =>
      Buffer.from(
        Buffer.concat([Buffer.alloc(offset), bytes])
          .toString(alphabet)
          .slice(start, end),
      )
    return (['base64', 'base64url'] as const).map(alphabet => ({
      from: encode(value, alphabet),
      to: encode(surrogate, alphabet),
    }))
  })
}

/** Repeats or cuts a surrogate: the text around it in base64 keeps its position. */
const fit = (bytes: Buffer, length: number): Buffer => Buffer.alloc(length, bytes)

const escapeUnit = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`

const escapeByte = (character: string): string => `%${character.charCodeAt(0).toString(16).toUpperCase()}`
