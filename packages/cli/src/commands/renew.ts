import { changeCommand } from '../change-command.ts'
import type { Command } from '../command.ts'
import { fromNow, parseDuration } from '../duration.ts'
import { text } from '../parse.ts'

export const command: Command = changeCommand(
  'Restart the idle time of sessions, and show when they expire',
  (session, flags) => {
    const ttl = text(flags['ttl-seconds'])
    return session.renew({ ttlSeconds: ttl === undefined ? undefined : parseDuration(ttl, 's', '--ttl-seconds') / 1000 })
  },
  { 'ttl-seconds': { type: 'string', value: 'DURATION', about: 'another ttl from here on, like 3600 or 1h' } },
  ({ name, expiresAt }) => `${name}  ${expiresAt === null ? 'has no end' : `ends ${fromNow(expiresAt)}, at ${expiresAt}`}`,
)
