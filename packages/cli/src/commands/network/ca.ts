// `sandglass ca`.
import type { Command, Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { runAction } from '../../parser/actions.ts'
import { noArguments } from '../../parser/parse.ts'

const ACTIONS = { show: async () => ({ run: show }), rotate: async () => ({ run: rotate }) }

export const command: Command = {
  summary: 'Show or replace the certificate authority that sandboxes trust',
  usage: ['show', 'rotate'],
  about: `Requests of a session pass a proxy on this host, which signs certificates with this authority. Only sandboxes trust it.

show prints the certificate in PEM.

rotate makes a new authority. A session trusts it from its next start on; until then it uses the one that it started with.`,
  options: {},
  completes: Object.keys(ACTIONS),
  changes: ['rotate'],
  run: runAction('ca', ACTIONS),
}

async function show(input: Input, { connect, json, print }: Context): Promise<number> {
  noArguments(input)
  const authority = await (await connect()).ca.get()
  print(json ? toJson(authority) : `${authority.certificate.trimEnd()}\n`)
  return 0
}

async function rotate(input: Input, { connect, json, print, say }: Context): Promise<number> {
  noArguments(input)
  const authority = await (await connect()).ca.rotate()
  print(json ? toJson(authority) : `${authority.fingerprint}  expires ${authority.expiresAt}\n`)
  say('note: sessions that run keep the old authority until their next start\n')
  return 0
}
