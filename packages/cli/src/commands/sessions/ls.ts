import { CONTEXT_LABEL } from '@sandglass/contract/tables'
import type { PolicyInfo, SandboxClient, SessionInfo } from '@sandglass/sdk'
import type { Command } from '../../command.ts'
import { sessionTable, toJson } from '../../output/show-session.ts'
import { noArguments, text } from '../../parser/parse.ts'

export const command: Command = {
  summary: 'List sessions',
  usage: ['[--all] [--label NAME=VALUE]'],
  options: {
    all: { type: 'boolean', short: 'a', about: 'also show sessions that have ended, and stopped ones of contexts' },
    label: { type: 'string', value: 'NAME=VALUE', about: 'show only sessions with this label' },
  },
  async run(input, context) {
    noArguments(input)
    const all = input.flags.all === true || undefined
    const client = await context.connect()
    const label = text(input.flags.label)
    const listed = await client.listSessions({ all, label })
    const found = all || label !== undefined ? listed : listed.filter(info => !isAsleep(info))
    const hidden = listed.length - found.length
    if (context.json) context.print(toJson(found))
    else if (found.length > 0) context.print(sessionTable(await withModes(found, client), process.stdout))
    else context.say(`no sessions${all ? '' : ' (--all also shows those that have ended)'}; \`sandglass new\` creates one\n`)
    if (hidden > 0 && !context.json) context.say(`not shown: stopped sessions of contexts (${hidden}); --all shows them\n`)
    return 0
  },
}

/** The session of a context is stopped between its tasks; `context ls` shows those. */
const isAsleep = ({ status, labels }: SessionInfo) => status === 'stopped' && CONTEXT_LABEL in labels

/** The strictest mode of its policies is that of the session. */
const STRICTEST_FIRST = ['enforce', 'ask', 'observe'] as const

/** The sessions with the modes that they have from their policies. */
async function withModes(found: readonly SessionInfo[], { policies }: SandboxClient): Promise<SessionInfo[]> {
  const isOpen = (info: SessionInfo) => info.policyMode === null && info.policies.length > 0
  const known = found.some(isOpen) ? await policies.list() : []
  return found.map(info => (isOpen(info) ? { ...info, policyMode: modeOf(info, known) } : info))
}

function modeOf({ policies }: SessionInfo, known: readonly PolicyInfo[]): SessionInfo['policyMode'] {
  const own = known.filter(({ name }) => policies.includes(name)).map(({ policy }) => policy.mode)
  return STRICTEST_FIRST.find(mode => own.includes(mode)) ?? null
}
