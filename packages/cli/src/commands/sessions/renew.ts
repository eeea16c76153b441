import type { SessionInfo } from '@sandglass/sdk'
import type { Command } from '../../command.ts'
import { expiryOf } from '../../output/show-session.ts'
import { fromNow, shortDuration } from '../../parser/duration.ts'
import { someSessionOptions, specFromFlags } from '../../parser/spec-from-flags.ts'
import { changeCommand } from './change-command.ts'

export const command: Command = {
  ...changeCommand(
    'Restart the ttl of a session, or the retention of a stopped one',
    (session, flags) => session.renew({ ttlSeconds: specFromFlags(flags).ttlSeconds }),
    someSessionOptions('ttl', 'ttl-seconds'),
    info => {
      const { verb, at } = expiryOf(info) ?? { verb: 'does not expire', at: null }
      return `${info.name}  ${at === null ? verb : `${verb} ${fromNow(at)}, at ${at}`}${atNextStart(info)}`
    },
  ),
  usage: ['NAME... [--ttl DURATION]'],
  about: '--ttl sets another ttl; without it the ttl stays the same.',
}

/** The ttl of a stopped session begins when the session starts. */
function atNextStart({ status, ttlSeconds }: SessionInfo): string {
  if (ttlSeconds === null || (status !== 'stopped' && status !== 'failed')) return ''
  return `; ttl ${shortDuration(ttlSeconds * 1000)} from its next start`
}
