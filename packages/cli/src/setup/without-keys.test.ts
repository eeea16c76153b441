import { expect, test } from 'vitest'
import { withoutKeys } from './without-keys.ts'

const KEYS = ['agent_api_keys', 'sprites_token']

test.each([
  [
    'among others',
    '# mine\nlisten: [unix] # stays\n\n# keys of agents\nagent_api_keys:\n  claude: sk-1 # gone\n  "codex": "sk-2"\n# about log\nlog_level: warn\n\nsprites_token: tok\n# the end\n',
    '# mine\nlisten: [unix] # stays\n\n# keys of agents\n# about log\nlog_level: warn\n\n# the end\n',
  ],
  ['that are all there is', 'sprites_token: tok\nagent_api_keys: { claude: sk-1 }', ''],
  [
    'with a comment below them',
    'agent_api_keys:\n  claude: sk-1\n  # about log\nlog_level: warn\n',
    '# about log\nlog_level: warn\n',
  ],
  ['in several lines', 'sprites_token: |\n  one\n  two\nlog_level: warn\n', 'log_level: warn\n'],
  ['quoted over lines', 'sprites_token: "one\n  two" # x\nlog_level: warn\n', 'log_level: warn\n'],
  ['without a value', 'log_level: warn\nsprites_token:\nagent_api_keys:\n', 'log_level: warn\n'],
  ['in braces', '{ "sprites_token": "tok", "log_level": "warn" }\n', '{ "log_level": "warn" }\n'],
  ['that are not there', '# only this\n', '# only this\n'],
  ['after a marker', '---\nsprites_token: tok\nlog_level: warn\n', '---\nlog_level: warn\n'],
  ['with the lines of another system', 'sprites_token: tok\r\nlog_level: warn\r\n', 'log_level: warn\r\n'],
])('keys %s are removed, and the text around them stays', (_what, text, expected) => {
  expect(withoutKeys(text, KEYS)).toBe(expected)
})
