// SECURITY: names, paths and messages may come from a sandbox. Printed raw they could move the cursor, rename the window or hide text,
// so control characters, and characters that reorder or hide text, are shown as escapes.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g
/** Unsafe characters that JSON does not escape. */
const UNSAFE_IN_JSON = /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

/** Makes one line safe to print. */
export function printable(value: string): string {
  return value.replace(UNSAFE, char => {
    if (char === '\n') return '\\n'
    if (char === '\t') return '\\t'
    const code = char.charCodeAt(0)
    return code < 256 ? `\\x${code.toString(16).padStart(2, '0')}` : unicode(char)
  })
}

/** Makes several lines safe to print; tabs are kept. */
export const printableLines = (value: string): string =>
  value
    .split('\n')
    .map(line => line.split('\t').map(printable).join('\t'))
    .join('\n')

/** JSON that is safe to print and has the same meaning. */
export const printableJson = (value: unknown, indent?: number): string => escapeUnsafe(JSON.stringify(value, null, indent))

/** Escapes unsafe characters in a text that has them only in double quotes, in JSON or YAML. */
export const escapeUnsafe = (text: string): string => text.replace(UNSAFE_IN_JSON, unicode)

const unicode = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
