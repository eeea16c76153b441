// The log: JSON lines on stderr. Fields whose names may stand for secrets are redacted, up to a depth of three.
import { writeSync } from 'node:fs'
import { type DestinationStream, type Logger, pino } from 'pino'

export type { Logger }

const SECRET_FIELDS = [
  'api_key',
  'apiKey',
  'authorization',
  'token',
  'secret',
  'password',
  'env',
  'value',
  'cmd',
  'content',
  'content_base64',
  'text',
]

export function createLogger(level: string, to: DestinationStream = linesTo(2)): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: label => ({ level: label }) },
      redact: { paths: SECRET_FIELDS.flatMap(field => [field, `*.${field}`, `*.*.${field}`]), censor: '***' },
    },
    to,
  )
}

/** Drops and counts lines that cannot be written, for example on a full disk, so that the daemon keeps running. */
export function linesTo(fd: number): DestinationStream {
  let dropped = 0
  return {
    write(line) {
      try {
        if (dropped > 0) writeWhole(fd, `{"level":"warn","dropped":${dropped},"msg":"log lines could not be written"}\n`)
        dropped = 0
        writeWhole(fd, line)
      } catch {
        dropped++
      }
    },
  }
}

function writeWhole(fd: number, text: string): void {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at)
}
