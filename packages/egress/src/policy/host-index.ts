// Values by host pattern, found without trying every pattern.
import { hasWildcard, matchesGlob } from './glob.ts'
import { isAddress, normaliseHost } from './host.ts'

export interface HostIndex<Value> {
  /** Every value whose pattern matches this normalised host. */
  find(host: string): readonly Value[]
}

interface Wildcard<Value> {
  readonly pattern: string
  readonly value: Value
}

/** A pattern without a wildcard that is no valid host matches nothing. */
export function indexHosts<Value>(entries: readonly (readonly [pattern: string, value: Value])[]): HostIndex<Value> {
  const exact = new Map<string, Value[]>()
  const wildcards = new Map<string, Wildcard<Value>[]>()
  for (const [text, value] of entries) {
    const pattern = text.toLowerCase()
    const host = normaliseHost(pattern)
    if (hasWildcard(pattern)) append(wildcards, literalLabels(pattern), { pattern, value })
    else if (host !== null) append(exact, host, value)
  }
  return {
    find(host) {
      const found = exact.get(host) ?? []
      // SECURITY: a wildcard stands for labels of a name. *.0.0.1 must not open 127.0.0.1.
      if (wildcards.size === 0 || isAddress(host)) return found
      const candidates = parents(host).flatMap(parent => wildcards.get(parent) ?? [])
      return [...found, ...candidates.filter(({ pattern }) => matchesGlob(pattern, host)).map(({ value }) => value)]
    },
  }
}

function append<Value>(map: Map<string, Value[]>, key: string, value: Value): void {
  const list = map.get(key)
  if (list === undefined) map.set(key, [value])
  else list.push(value)
}

/** The labels after the last one with a wildcard: every host that matches is a name below them. */
function literalLabels(pattern: string): string {
  const labels = pattern.split('.')
  return labels.slice(labels.findLastIndex(hasWildcard) + 1).join('.')
}

/** a.b.com → b.com, com and the empty name. */
function parents(host: string): string[] {
  const names: string[] = []
  for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) names.push(host.slice(dot + 1))
  return [...names, '']
}
