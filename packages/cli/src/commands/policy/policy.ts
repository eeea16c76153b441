// `sandglass policy`: the flags of its actions, and their files.
import { POLICY_MODES } from '@sandglass/contract/tables'
import type { Command } from '../../command.ts'
import { type Actions, runAction } from '../../parser/actions.ts'
import { NONE } from '../../parser/duration.ts'

const ACTIONS: Actions = {
  ls: () => import('./ls.ts'),
  show: () => import('./show.ts'),
  set: () => import('./set.ts'),
  rm: () => import('./rm.ts'),
  check: () => import('./check.ts'),
  suggest: () => import('./suggest.ts'),
  use: () => import('./use.ts'),
}

export const command: Command = {
  summary: 'Say what sessions may reach on the network',
  usage: [
    'ls',
    'show NAME',
    'set NAME [FILE|-]',
    'set NAME [--domain HOST]... [--include NAME]... [FLAGS]',
    'rm NAME... [-f]',
    'check NAME URL [-X METHOD]',
    'suggest SESSION [--save NAME]',
    'use SESSION [NAME]... [--mode MODE]',
  ],
  about: `set reads YAML or JSON from FILE, or from stdin if FILE is - or absent. Running sessions that use the policy change at once. An
example, which show prints in the same form:
  include: [npm]
  domains: [example.com, "*.example.com", "example.com:8443"]
  url_prefixes:
    - host: api.example.com
      path: /v1/*
      methods: [GET, POST]

check prints whether the policy allows a request to URL (http, https, ws, wss, or tcp://HOST:PORT), and why. Nothing is sent. Exit code:
0 if the request is allowed, 1 if it is refused.

suggest prints a policy that includes those of SESSION and allows what else SESSION has sent so far. Read it before you use it.

use gives a session other policies while it runs. Open connections that they do not allow are cut.`,
  options: {
    domain: {
      type: 'string',
      only: 'set',
      multiple: true,
      value: 'HOST',
      about: 'set: host that may be reached, such as example.com, *.example.com or example.com:8443; may be repeated',
    },
    include: {
      type: 'string',
      only: 'set',
      multiple: true,
      value: 'NAME',
      names: 'policy',
      about: 'set: other policy whose rules belong to this one; may be repeated',
    },
    tcp: {
      type: 'string',
      only: 'set',
      multiple: true,
      value: 'HOST:PORT',
      about: 'set: address that may be reached with any protocol; nothing of it is inspected; may be repeated',
    },
    mode: {
      type: 'string',
      only: ['set', 'use'],
      value: 'MODE',
      suggested: POLICY_MODES,
      about: `for requests outside the policy: ${POLICY_MODES.join(', ')}; use: ${NONE} for the modes of the policies`,
    },
    clear: { type: 'boolean', only: 'use', about: 'use: take all policies away; the session then reaches nothing' },
    method: { type: 'string', short: 'X', only: 'check', value: 'METHOD', about: 'check: method of the request; GET by default' },
    save: {
      type: 'string',
      only: 'suggest',
      value: 'NAME',
      names: 'policy',
      about: 'suggest: also store the policy under this name',
    },
    force: { type: 'boolean', short: 'f', only: 'rm', about: 'rm: ignore policies that do not exist' },
  },
  completes: Object.keys(ACTIONS),
  namesAfter: {
    show: ['policy'],
    set: ['policy', 'file'],
    rm: ['policy...'],
    check: ['policy'],
    suggest: ['session'],
    use: ['session', 'policy...'],
  },
  changes: ['set', 'rm', 'suggest', 'use'],
  run: runAction('policy', ACTIONS),
}
