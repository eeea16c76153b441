import { changeCommand } from '../change-command.ts'
import type { Command, Values } from '../command.ts'
import { fromNow, parseSecondsOrNone } from '../duration.ts'
import { text, usage } from '../parse.ts'
import { expiryOf } from '../show-session.ts'

const TTL = {
  type: 'string',
  value: 'DURATION',
  about: 'another ttl from here on, like 3600 or 1h; none for a persistent session',
} as const

export const command: Command = changeCommand(
  'Start the ttl of a session again, or the retention of a stopped one',
  (session, flags) => session.renew({ ttlSeconds: ttlFrom(flags) }),
  { ttl: TTL, 'ttl-seconds': { ...TTL, about: 'the same as --ttl' } },
  info => {
    const { verb, at } = expiryOf(info) ?? { verb: 'does not expire', at: null }
    return `${info.name}  ${at === null ? verb : `${verb} ${fromNow(at)}, at ${at}`}`
  },
)

function ttlFrom(flags: Values): number | null | undefined {
  const [first, second] = (['ttl', 'ttl-seconds'] as const).flatMap(flag => {
    const given = text(flags[flag])
    return given === undefined ? [] : [parseSecondsOrNone(given, `--${flag}`)]
  })
  if (second !== undefined) throw usage('the ttl is given twice')
  return first
}
