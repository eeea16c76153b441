// Policies for tests, written as a user writes them.
import { Policy, type PolicyMode } from '@sandglass/contract'
import type { z } from 'zod'
import { type CompiledPolicy, compilePolicy, type PolicyInput } from './policy.ts'

export type Written = z.input<typeof Policy>

/** One policy named `test`. */
export function policyOf(written: Written, options: Partial<Omit<PolicyInput, 'policies'>> = {}): CompiledPolicy {
  return policiesOf([written], options)
}

/** Policies named `test`, `test2`, `test3` … */
export function policiesOf(written: readonly Written[], options: Partial<Omit<PolicyInput, 'policies'>> = {}): CompiledPolicy {
  const policies = written.map((policy, i) => ({ name: i === 0 ? 'test' : `test${i + 1}`, policy: Policy.parse(policy) }))
  return compilePolicy({ network: 'allowlist', mode: null, policies, ...options })
}

export const MODES: readonly PolicyMode[] = ['enforce', 'ask', 'observe']
