import { SandglassError, type SessionPolicies } from '@sandglass/sdk'
import type { Command } from '../../command.ts'
import { showProgress } from '../../output/show-progress.ts'
import { noteWarnings } from '../../output/show-session.ts'
import { someSessionOptions, specFromFlags } from '../../parser/spec-from-flags.ts'
import { changeCommand } from './change-command.ts'

export const command: Command = {
  ...changeCommand(
    'Start a stopped or failed session',
    async (session, flags, client, context) => {
      const { network, policies, policyMode, secrets, agents } = specFromFlags(flags)
      const changes = { network, policies, policyMode, secrets, agents }
      const started = session.start(changes).catch(error => {
        throw withPolicyUse(error, changes)
      })
      const info = await showProgress(client, { session: session.id }, context, started)
      noteWarnings(info, context)
      return info
    },
    someSessionOptions('network', 'policy', 'policy-mode', 'secret', 'agent'),
  ),
  usage: ['NAME... [--policy NAME]... [--secret NAME]... [FLAGS]', 'NAME... -a AGENT'],
  about:
    'What a flag gives replaces what the session had, for this and later starts. Without flags, the session starts as it was.',
  event: 'start',
}

/** A session that runs already can get other policies without a start. */
function withPolicyUse(error: unknown, { policies = [], policyMode }: SessionPolicies): unknown {
  const isMeant = policies.length > 0 || policyMode !== undefined
  if (!isMeant || !(error instanceof SandglassError) || !error.is('WRONG_STATE') || error.detail.state !== 'running') return error
  const { id, name = id } = error.detail
  const words = ['policy', 'use', name, ...policies, ...(policyMode ? ['--mode', policyMode] : [])]
  return error.with({ next: `\`sandglass ${words.join(' ')}\`` })
}
