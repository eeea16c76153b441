// Users and groups of an image, from its /etc/passwd and /etc/group: for USER and for COPY --chown.

export interface ImageUsers {
  readonly passwd: string
  readonly group: string
}

export interface ImageUser {
  readonly uid: number
  readonly gid: number
  /** Groups besides gid. */
  readonly groups: readonly number[]
  readonly home: string
}

/** Ids that a sandbox has. */
const MAX_ID = 65_535

/** `text` is NAME, UID, NAME:GROUP or UID:GID. A string is the reason why there is no such user. */
export function userOf({ passwd, group }: ImageUsers, text: string): ImageUser | string {
  const [name = '', groupName] = text.split(':')
  const users = linesOf(passwd)
  const groups = linesOf(group)
  const row = users.find(([user, , id]) => user === name || id === name)
  const uid = idOf(row?.[2] ?? name)
  if (uid === null) return `the image has no user ${name}`
  const gid = groupName === undefined ? (idOf(row?.[3] ?? '0') ?? 0) : groupOf(groups, groupName)
  if (gid === null) return `the image has no group ${groupName}`
  const more = groups.filter(([, , , members = '']) => row !== undefined && members.split(',').includes(row[0] ?? ''))
  const others = groupName === undefined ? more.flatMap(([, , id = '']) => idOf(id) ?? []).filter(id => id !== gid) : []
  return { uid, gid, groups: others, home: row?.[5] || '/' }
}

/** The owner in --chown: a user without a group has the group of the same number, as Docker has it. */
export function ownerOf(users: ImageUsers, text: string): { uid: number; gid: number } | string {
  const found = userOf(users, text)
  if (typeof found === 'string') return found
  return { uid: found.uid, gid: text.includes(':') || !/^\d+$/.test(text) ? found.gid : found.uid }
}

function groupOf(groups: readonly string[][], text: string): number | null {
  return idOf(groups.find(([name]) => name === text)?.[2] ?? text)
}

const linesOf = (text: string): string[][] => text.split('\n').map(line => line.split(':'))

function idOf(text: string): number | null {
  return /^\d{1,5}$/.test(text) && Number(text) <= MAX_ID ? Number(text) : null
}
