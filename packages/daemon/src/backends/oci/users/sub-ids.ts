// The ids that /etc/subuid and /etc/subgid assign to users: whether a user has enough, and a range that is free.
import { existsSync, readFileSync } from 'node:fs'
import { type UserInfo, userInfo } from 'node:os'

export const IDS_NEEDED = 65_536
const FIRST = 100_000
const FILES = { '--add-subuids': '/etc/subuid', '--add-subgids': '/etc/subgid' } as const

export interface Problem {
  readonly why: string
  readonly fix: string
}

/** The files that assign this user too few ids, with one command that fixes both; null when there are enough. */
export function subIdProblem(): Problem | null {
  const user = userInfo()
  const lacking = Object.entries(FILES).filter(([, file]) => !hasSubIds(textOf(file), user))
  if (lacking.length === 0) return null
  return {
    why: `${lacking.map(([, file]) => file).join(' and ')} give ${user.username} fewer than ${IDS_NEEDED} ids`,
    fix: addCommand(
      lacking.map(([option]) => option),
      user.username,
    ),
  }
}

/** The command that assigns more ids in both files. */
export const moreSubIds = (): string => addCommand(Object.keys(FILES), '$USER')

function addCommand(options: readonly string[], username: string): string {
  const range = freeRange(Object.values(FILES).map(textOf).join('\n'))
  return `sudo usermod ${options.map(option => `${option} ${range}`).join(' ')} ${username}`
}

export function hasSubIds(text: string, { username, uid }: Pick<UserInfo<string>, 'username' | 'uid'>): boolean {
  return rangesIn(text).some(({ owner, size }) => (owner === username || owner === String(uid)) && size >= IDS_NEEDED)
}

/** The lowest free range, as usermod takes it. SECURITY: two users with the same ids could reach each other's sandboxes. */
export function freeRange(text: string): string {
  let start = FIRST
  for (const range of rangesIn(text).toSorted((a, b) => a.start - b.start)) {
    if (range.start >= start + IDS_NEEDED) break
    start = Math.max(start, range.start + range.size)
  }
  return `${start}-${start + IDS_NEEDED - 1}`
}

function rangesIn(text: string): { owner: string; start: number; size: number }[] {
  return [...text.matchAll(/^([^:#\n]+):(\d+):(\d+)\s*$/gm)].map(([, owner = '', start, size]) => ({
    owner,
    start: Number(start),
    size: Number(size),
  }))
}

const textOf = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8') : '')
