// What an agent does with a tool, in one line: the name of the tool and the essential part of its input.

/** Fields of the input that say most about a tool use, the first one that is there. All three agents name them like this. */
const ESSENTIAL = [
  'command',
  'cmd',
  'file_path',
  'filePath',
  'notebook_path',
  'pattern',
  'path',
  'query',
  'url',
  'description',
  'prompt',
  'skill',
]

/** The essential part of the input of a tool, not yet safe to print; empty if there is none. */
export function toolInputText(input: unknown): string {
  if (typeof input === 'string') return input
  if (typeof input !== 'object' || input === null) return ''
  if (Array.isArray(input)) return input.every(item => typeof item === 'string') ? input.join(' ') : JSON.stringify(input)
  const fields = input as Record<string, unknown>
  for (const name of ESSENTIAL) {
    const found = Object.hasOwn(fields, name) ? fieldText(fields[name]) : ''
    if (found !== '') return withPlace(name, found, fields)
  }
  return Object.keys(fields).length === 0 ? '' : JSON.stringify(fields)
}

/** A program with its arguments may be a list of words, for which `bash -lc TEXT` is TEXT. */
function fieldText(value: unknown): string {
  if (typeof value === 'string') return value
  if (!Array.isArray(value) || !value.every(item => typeof item === 'string')) return ''
  const [shell = '', flag = '', text, ...more] = value
  return /(^|\/)(ba|z|da)?sh$/.test(shell) && /^-l?c$/.test(flag) && text !== undefined && more.length === 0
    ? text
    : value.join(' ')
}

/** A search also says where. */
function withPlace(name: string, found: string, { path }: Record<string, unknown>): string {
  return name === 'pattern' && typeof path === 'string' && path !== '' ? `${found} in ${path}` : found
}
