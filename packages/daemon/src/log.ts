// JSON lines on stderr. Values of fields that may hold a secret are cut by name, at any of the depths we log.
import { type DestinationStream, destination, type Logger, pino } from 'pino'

export type { Logger }

const SECRET_FIELDS = [
  'api_key',
  'apiKey',
  'authorization',
  'token',
  'secret',
  'password',
  'env',
  'cmd',
  'content',
  'content_base64',
  'text',
]

export function createLogger(level: string, to: DestinationStream = destination({ dest: 2, sync: true })): Logger {
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
