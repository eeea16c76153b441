// Handlers of policies. A changed policy is sent to the sessions that use it at once.
import { checkPolicy, getPolicy, listPolicies, putPolicy, removePolicy } from '../../policies/stored.ts'
import { updateEgress } from '../../sessions/network/join-egress.ts'
import { setPolicies } from '../../sessions/network/set-policies.ts'
import { usesPolicy } from '../../sessions/network/uses.ts'
import { showSession } from '../../sessions/show.ts'
import type { Api, Handlers } from '../api.ts'

export const policyHandlers = ({ context }: Api) =>
  ({
    putPolicy: async ({ params, body, log }) => {
      // An approval that adds a rule must not write the rules of before over these.
      const stored = await context.mutex.run(`policy ${params.name}`, () => putPolicy(context, params.name, body))
      log.info({ policy: params.name }, 'policy stored')
      await updateEgress(context, await usesPolicy(context, params.name))
      return stored
    },
    listPolicies: ({ query }) => listPolicies(context, query),
    getPolicy: ({ params }) => getPolicy(context, params.name),
    deletePolicy: async ({ params, log }) => {
      const removed = await removePolicy(context, params.name)
      log.info({ policy: params.name }, 'policy removed')
      return removed
    },
    checkPolicy: ({ params, body }) => checkPolicy(context, params.name, body),
    setSessionPolicies: async ({ params, body, log }) => showSession(await setPolicies(context, params.id, body, log)),
  }) satisfies Partial<Handlers>
