// Handlers of secrets. A changed secret is sent to the sessions that use it at once.
import { listSecrets, putSecret, removeSecret, rotateSecret } from '../../secrets/stored.ts'
import { updateEgress } from '../../sessions/network/join-egress.ts'
import { usesSecret } from '../../sessions/network/uses.ts'
import type { Api, Handlers } from '../api.ts'

export const secretHandlers = ({ context }: Api) =>
  ({
    putSecret: async ({ params, body, log }) => {
      const stored = await putSecret(context, params.name, body)
      log.info({ secretName: params.name }, 'secret stored')
      await updateEgress(context, usesSecret(params.name))
      return stored
    },
    listSecrets: ({ query }) => listSecrets(context, query),
    rotateSecret: async ({ params, body, log }) => {
      const stored = await rotateSecret(context, params.name, body.value)
      log.info({ secretName: params.name }, 'secret rotated')
      await updateEgress(context, usesSecret(params.name))
      return stored
    },
    deleteSecret: async ({ params, log }) => {
      const removed = await removeSecret(context, params.name)
      log.info({ secretName: params.name }, 'secret removed')
      await updateEgress(context, usesSecret(params.name))
      return removed
    },
  }) satisfies Partial<Handlers>
