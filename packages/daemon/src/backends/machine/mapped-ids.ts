// The user and group ids of a user namespace, and the one among them that is reserved for the egress process.

/** `first` to `end - 1` are for sessions; none if `first` is `end`. */
export interface MappedIds {
  readonly first: number
  readonly end: number
  /** User and group of the egress process; null if nothing but the daemon's own id is mapped. */
  readonly egress: number | null
}

/** The ids that both maps have, without id 0, which is the daemon's own. The maps are in the form of /proc/self/uid_map and gid_map. */
export function mappedIds(uidMap: string, gidMap: string): MappedIds {
  const [uids, gids] = [longestRun(uidMap), longestRun(gidMap)]
  const first = Math.max(uids.first, gids.first)
  const end = Math.min(uids.first + uids.size, gids.first + gids.size)
  return first < end ? { first, end: end - 1, egress: end - 1 } : { first, end: first, egress: null }
}

function longestRun(map: string): { first: number; size: number } {
  let best = { first: 1, size: 0 }
  for (const line of map.trim().split('\n')) {
    const [inside = 0, , size = 0] = line.trim().split(/\s+/).map(Number)
    const run = inside === 0 ? { first: 1, size: size - 1 } : { first: inside, size }
    if (run.size > best.size) best = run
  }
  return best
}

/** True for the map of the initial user namespace, which maps every id to itself. */
export const isInitialMap = (map: string): boolean => /^\s*0\s+0\s+4294967295\s*$/.test(map)
