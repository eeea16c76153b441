// `sandglass secret`: the flags of its actions, and their files.
import { SECRET_KINDS, SECRET_PRESETS } from '@sandglass/contract/tables'
import type { Command } from '../../command.ts'
import { type Actions, runAction } from '../../parser/actions.ts'

const ACTIONS: Actions = {
  set: () => import('./set.ts'),
  rotate: () => import('./rotate.ts'),
  ls: () => import('./ls.ts'),
  rm: () => import('./rm.ts'),
}

export const command: Command = {
  summary: 'Store, rotate, list and remove secrets, encrypted',
  usage: ['set NAME [--preset PRESET] [--scope HOST]... [FLAGS]', 'rotate NAME', 'ls', 'rm NAME... [-f]'],
  about: `A value is asked for without being shown, or read from stdin without the newline at its end. A stored value is never shown.

set replaces a secret of the same name with its settings. A session can use a secret that has a scope: \`sandglass new --secret NAME\`.
Programs in it see a surrogate, and the real value is inserted on the way to a host of its scope. A preset has the settings for a
well-known service; flags override them.

rotate replaces the value and keeps the settings. Running sessions use the new value at once.

Of kind aws, the value is a JSON object with access_key_id, secret_access_key and session_token, lines like AWS_ACCESS_KEY_ID=KEY, or a
section of ~/.aws/credentials; a prompt asks for each part.`,
  options: {
    preset: { type: 'string', only: 'set', choices: SECRET_PRESETS, about: 'set: settings for a well-known service' },
    scope: {
      type: 'string',
      only: 'set',
      multiple: true,
      value: 'HOST',
      about:
        'set: host that may receive the value, with a path if wanted: api.example.com, *.example.com, example.com/api/*; may be repeated',
    },
    header: {
      type: 'string',
      only: 'set',
      multiple: true,
      value: 'NAME',
      about: 'set: header in which the surrogate is replaced, such as authorization; * and ? are wildcards; may be repeated',
    },
    env: { type: 'string', only: 'set', value: 'VARIABLE', about: 'set: variable that has the surrogate in the session' },
    query: { type: 'boolean', only: 'set', about: 'set: also replace the surrogate in the query of the URL' },
    body: { type: 'boolean', only: 'set', about: 'set: also replace the surrogate in request bodies' },
    kind: {
      type: 'string',
      only: 'set',
      choices: SECRET_KINDS,
      about: 'set: masked: the value replaces its surrogate; aws: requests are signed again with the real key',
    },
    'allow-foreign-credentials': {
      type: 'boolean',
      only: 'set',
      about: 'set: leave a header that holds another credential than the surrogate; otherwise it is removed',
    },
    force: { type: 'boolean', short: 'f', only: 'rm', about: 'rm: do not ask, and ignore secrets that do not exist' },
  },
  completes: Object.keys(ACTIONS),
  namesAfter: { set: ['secret'], rotate: ['secret'], rm: ['secret...'] },
  changes: ['set', 'rotate', 'rm'],
  // SECURITY: an argument in the wrong place may be a value, so no message of an action repeats an argument.
  run: runAction('secret', ACTIONS),
}
