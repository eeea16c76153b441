// Reads the value of a secret without showing it.
import { LIMITS, type SecretKind } from '@sandglass/contract/tables'
import { usage } from '../../parser/parse.ts'
import { askSecret } from '../../setup/ask.ts'
import { AWS_PARTS, awsValue } from './aws-value.ts'

/** Reads the value from a prompt without echo, or from stdin. SECURITY: never from argv, which every user of the machine can read. */
export async function readSecretValue(name: string, kind: SecretKind): Promise<string> {
  if (kind === 'aws') return awsValue(process.stdin.isTTY ? await askAwsParts() : await pipedText())
  const value = process.stdin.isTTY ? await askSecret(`Value of ${name}: `) : await pipedText()
  if (value === '') throw usage('the value is empty: nothing was stored', `printf %s "$KEY" | sandglass secret set ${name}`)
  return value
}

/** A prompt reads one line, so that each part is asked for by itself. */
async function askAwsParts(): Promise<string> {
  const lines: string[] = []
  for (const [field, { question }] of Object.entries(AWS_PARTS)) {
    const answer = await askSecret(question)
    if (answer !== '') lines.push(`${field}=${answer}`)
  }
  return lines.join('\n')
}

const pipedText = async () => textOf(await piped()).replace(/\r?\n$/, '')

async function piped(): Promise<Buffer> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of process.stdin as AsyncIterable<Buffer>) {
    pieces.push(piece)
    length += piece.length
    // The newline at the end does not count.
    if (length > LIMITS.secret_value_bytes.max + 2) throw usage(`the value is longer than ${LIMITS.secret_value_bytes.max} bytes`)
  }
  return Buffer.concat(pieces)
}

function textOf(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    if (cause instanceof TypeError) throw usage('the value is not UTF-8 text; encode it first, for instance with base64')
    throw cause
  }
}
