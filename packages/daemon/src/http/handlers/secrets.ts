// Handlers of secrets.
import { listSecrets, putSecret, removeSecret } from '../../secrets/stored.ts'
import type { Api, Handlers } from '../api.ts'

export const secretHandlers = ({ context }: Api) =>
  ({
    putSecret: async ({ params, body, log }) => {
      const stored = await putSecret(context, params.name, body.value)
      log.info({ secretName: params.name }, 'secret stored')
      return stored
    },
    listSecrets: ({ query }) => listSecrets(context, query),
    deleteSecret: async ({ params, log }) => {
      const removed = await removeSecret(context, params.name)
      log.info({ secretName: params.name }, 'secret removed')
      return removed
    },
  }) satisfies Partial<Handlers>
