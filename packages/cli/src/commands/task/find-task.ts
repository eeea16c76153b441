// Tasks that are named on the command line: by id, by the beginning of one, or as `last`.
import { SandglassError, TASK_ID } from '@sandglass/contract/tables'
import type { SandboxClient } from '@sandglass/sdk'
import type { Input } from '../../command.ts'
import { oneArgument, usage } from '../../parser/parse.ts'

const PREFIX = 'task_'
const LAST = 'last'

/** The id of the only argument. */
export const taskArgument = (client: SandboxClient, input: Pick<Input, 'args' | 'rest'>): Promise<string> =>
  findTask(client, oneArgument(input, 'TASK'))

/** The id of a task. A whole id is not looked up. */
export async function findTask({ tasks }: SandboxClient, given: string): Promise<string> {
  if (TASK_ID.test(given)) return given
  if (given === LAST) {
    const [newest] = (await tasks.page({ limit: 1 })).items
    if (newest === undefined) throw usage('there is no task yet', 'sandglass run -a AGENT -p PROMPT')
    return newest.id
  }
  const begin = given.startsWith(PREFIX) ? given : `${PREFIX}${given}`
  const ids = /^task_[a-z0-9]{1,16}$/.test(begin) ? (await tasks.list()).map(({ id }) => id) : []
  return onlyMatch(given, begin, ids)
}

export function onlyMatch(given: string, begin: string, ids: readonly string[]): string {
  const [found, ...others] = ids.filter(id => id.startsWith(begin))
  if (found === undefined) throw new SandglassError('TASK_NOT_FOUND', { id: given })
  if (others.length > 0)
    throw usage(`${given} is the beginning of ${others.length + 1} tasks: ${[found, ...others].slice(0, 5).join(', ')}`)
  return found
}
