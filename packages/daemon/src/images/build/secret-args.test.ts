import { expect, it } from 'vitest'
import { hideSecrets, looksSecret } from './secret-args.ts'

it.each(['NPM_TOKEN', 'TOKENS', 'DEPLOYKEY', 'SSH_KEYS', 'KEYFILE', 'PRIVATEKEY', 'SECRETS', 'DB_PASSWORDS', 'apiKey', 'AUTH2'])(
  '%s looks like a secret',
  name => expect(looksSecret(name)).toBe(true),
)

it.each(['AUTHOR', 'KEYBOARD', 'PASSIVE', 'VERSION', 'TOKENIZER'])('%s does not look like a secret', name =>
  expect(looksSecret(name)).toBe(false),
)

it('the lines of a secret are hidden, and a secret that begins like another is hidden completely', () => {
  const args = { SSH_KEY: 'BEGIN KEY\nline-two\r\nline-three\n', A_TOKEN: 'abcdef', B_TOKEN: 'abcdef1234', PLAIN: 'plain' }
  expect(hideSecrets(args.SSH_KEY, args)).toBe('***')
  expect(['BEGIN KEY', 'line-two', 'a line-three', 'x=abcdef1234', 'abcdef plain'].map(text => hideSecrets(text, args))).toEqual([
    '***',
    '***',
    'a ***',
    'x=***',
    '*** plain',
  ])
})
