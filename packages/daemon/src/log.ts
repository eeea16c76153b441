// JSON lines on stderr. Values of fields that may hold a secret are cut by name, at any of the depths we log.
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

/** A log that cannot be written, on a full disk or to a reader that is gone, is no reason to end: lines are dropped, and counted. */
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
