import { changeCommand } from '../change-command.ts'
import type { Command } from '../command.ts'
import { fromNow } from '../duration.ts'
import { expiryOf } from '../show-session.ts'
import { someSessionOptions, specFromFlags } from '../spec-from-flags.ts'

export const command: Command = {
  ...changeCommand(
    'Start the ttl of a session again, or the retention of a stopped one',
    (session, flags) => session.renew({ ttlSeconds: specFromFlags(flags).ttlSeconds }),
    someSessionOptions('ttl', 'ttl-seconds'),
    info => {
      const { verb, at } = expiryOf(info) ?? { verb: 'does not expire', at: null }
      return `${info.name}  ${at === null ? verb : `${verb} ${fromNow(at)}, at ${at}`}`
    },
  ),
  usage: ['NAME... [--ttl DURATION]'],
  about: '--ttl sets a new ttl; without it the ttl is unchanged. --ttl none: no ttl (persistent sessions only).',
}
