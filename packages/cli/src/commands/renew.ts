import { changeCommand } from '../change-command.ts'
import type { Command } from '../command.ts'
import { fromNow, parseSecondsOrNone } from '../duration.ts'
import { text } from '../parse.ts'
import { expiryOf } from '../show-session.ts'

const TTL = {
  type: 'string',
  value: 'DURATION',
  about: 'new ttl, like 3600 or 1h; none: no ttl (persistent sessions only)',
} as const

export const command: Command = changeCommand(
  'Start the ttl of a session again, or the retention of a stopped one',
  (session, flags) => {
    const ttl = text(flags['ttl-seconds'])
    return session.renew({ ttlSeconds: ttl === undefined ? undefined : parseSecondsOrNone(ttl, '--ttl') })
  },
  { ttl: { ...TTL, aliasOf: 'ttl-seconds' }, 'ttl-seconds': { ...TTL, about: 'the same as --ttl' } },
  info => {
    const { verb, at } = expiryOf(info) ?? { verb: 'does not expire', at: null }
    return `${info.name}  ${at === null ? verb : `${verb} ${fromNow(at)}, at ${at}`}`
  },
)
