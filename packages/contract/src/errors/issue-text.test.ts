import { expect, it } from 'vitest'
import { Config } from '../schemas/config.ts'
import { ProcessSpec } from '../schemas/exec.ts'
import { SessionSpec } from '../schemas/session.ts'

const runtimes = (value: Record<string, string>) => Config.safeParse({ backends: { oci: { runtimes: value } } })

it.each([
  ['a tag', ProcessSpec.safeParse({ argv: ['true'], tag: 'a b' }), /^must be 1 to 64 of a-z/],
  ['a variable', SessionSpec.safeParse({ env: { '9A': '' } }), /^must be of a-z, A-Z, 0-9 and _/],
  ['a label', SessionSpec.safeParse({ labels: { 'a b': '' } }), /^must be 1 to 63 of a-z/],
  ['a runtime', runtimes({ 'Run SC': '/usr/bin/runsc' }), /^must be 1 to 41 characters of a-z/],
  ['a field', SessionSpec.safeParse({ memory_m_b: 512 }), /^unknown field memory_m_b; did you mean memory_mb\?$/],
  ['another field', SessionSpec.safeParse({ colour: 'red' }), /^unknown field colour$/],
  ['a path', runtimes({ runsc: 'runsc' }), /^must begin with \/$/],
])('the message for an invalid value says what is allowed: %s', (_, { error }, words) => {
  expect(error?.issues.map(({ message }) => message)).toEqual([expect.stringMatching(words)])
})
