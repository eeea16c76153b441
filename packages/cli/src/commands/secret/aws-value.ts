// The value of a secret of kind aws, from the forms in which AWS keys are kept.
import { usage } from '../../parser/parse.ts'

/** The fields of the value, and how a prompt asks for them. */
export const AWS_PARTS = {
  access_key_id: { question: 'Access key id: ', isRequired: true },
  secret_access_key: { question: 'Secret access key: ', isRequired: true },
  session_token: { question: 'Session token (Enter for none): ', isRequired: false },
} as const

type Part = keyof typeof AWS_PARTS

/**
 * The JSON that the daemon takes. `text` is such JSON, lines of KEY=VALUE as in `AWS_ACCESS_KEY_ID=…`, or one section of ~/.aws/credentials.
 * Other keys, such as a region, are left out. SECURITY: no message repeats a part of the text.
 */
export function awsValue(text: string): string {
  const entries = text.trimStart().startsWith('{') ? fromJson(text) : fromLines(text)
  const value: Partial<Record<Part, string>> = {}
  for (const [key, given] of entries) {
    const part = partOf(key)
    if (part === undefined || given === '') continue
    if (value[part] !== undefined) throw usage(`the value has ${part} twice`)
    value[part] = given
  }
  const missing = (Object.keys(AWS_PARTS) as Part[]).find(part => AWS_PARTS[part].isRequired && value[part] === undefined)
  if (missing !== undefined)
    throw usage(`the value of kind aws has no ${missing}: nothing was stored`, '`sandglass help secret` shows its forms')
  return JSON.stringify(value)
}

/** AWS_ACCESS_KEY_ID, aws_access_key_id, AccessKeyId and access_key_id are the same. */
function partOf(key: string): Part | undefined {
  const plain = (name: string) => name.toLowerCase().replaceAll('_', '')
  const wanted = plain(key).replace(/^aws/, '')
  return (Object.keys(AWS_PARTS) as Part[]).find(part => plain(part) === wanted)
}

/** Also what `aws sts` and `aws configure export-credentials` print. */
function fromJson(text: string): [string, string][] {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    throw usage('the value is not JSON') // the parser's message quotes it
  }
  const holder = parsed as Record<string, unknown>
  const inner = holder.Credentials
  const keys = typeof inner === 'object' && inner !== null ? inner : holder
  return Object.entries(keys).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
}

function fromLines(text: string): [string, string][] {
  const lines = text.split(/\r?\n/).map(line => line.trim())
  if (lines.filter(line => /^\[.*\]$/.test(line)).length > 1)
    throw usage('the value has more than one section: give the lines of one')
  return lines.flatMap((line): [string, string][] => {
    const [, key, given] = /^(?:export\s+)?([A-Za-z_]+)\s*=\s*(.*)$/.exec(line) ?? []
    return key === undefined || given === undefined ? [] : [[key, given.replace(/^(["'])(.*)\1$/, '$2')]]
  })
}
