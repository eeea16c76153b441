// Request ids: the caller's own when it is sane, else one of ours. It stands in the reply, in errors and in every log line.
import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

export function requestIds(): (request: IncomingMessage) => string {
  const start = randomBytes(6).toString('base64url')
  let count = 0
  return ({ headers }) => {
    const given = headers['x-request-id']
    return typeof given === 'string' && /^[A-Za-z0-9._:/-]{1,128}$/.test(given) ? given : `req-${start}-${(++count).toString(36)}`
  }
}
