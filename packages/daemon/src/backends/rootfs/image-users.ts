// /etc/passwd and /etc/group of an image with the user that sandboxes run as. A user of the image with the same id keeps its name.
import { SANDBOX_HOME } from '@sandglass/contract/tables'

export const SANDBOX_ID = 1000
const NAME = 'sandbox'

export interface Users {
  readonly passwd: string
  readonly group: string
  /** Name of the user with SANDBOX_ID. */
  readonly name: string
}

/** `passwd` and `group` are the image's own files, '' where it has none; `shell` is a shell of the image. */
export function withSandboxUser(passwd: string, group: string, shell: string): Users {
  const users = linesOf(passwd || `root:x:0:0:root:/root:${shell}\n`)
  const groups = linesOf(group || 'root:x:0:\n')
  const found = users.findIndex(line => line.split(':')[2] === String(SANDBOX_ID))
  const [name = ''] = users[found]?.split(':') ?? []
  const isUsable = name !== 'root' && /^[a-z_][a-z0-9_-]{0,31}$/.test(name)
  const user = isUsable ? name : freeName(users)
  const line = `${user}:x:${SANDBOX_ID}:${SANDBOX_ID}:${user}:${SANDBOX_HOME}:${shell}`
  const merged = found < 0 ? [...users, line] : users.with(found, line)
  const hasGroup = groups.some(entry => entry.split(':')[2] === String(SANDBOX_ID))
  const withGroup = hasGroup ? groups : [...groups, `${freeName(groups)}:x:${SANDBOX_ID}:`]
  return { passwd: `${merged.join('\n')}\n`, group: `${withGroup.join('\n')}\n`, name: user }
}

const linesOf = (text: string) => text.split('\n').filter(line => line !== '')

function freeName(lines: readonly string[]): string {
  const taken = new Set(lines.map(line => line.split(':')[0]))
  let name = NAME
  for (let n = 1; taken.has(name); n++) name = `${NAME}${n}`
  return name
}
