// Whether a session may send an HTTP request.
import { type CompiledPolicy, graphqlKinds, type HttpRule } from './compile.ts'
import { matchesGlob } from './glob.ts'
import type { GraphqlOperations } from './graphql/graphql.ts'
import { bracketed } from './host.ts'
import { allow, block, type Decision, decideOutside, hostRefusal } from './outside.ts'
import { readPath } from './path.ts'

export interface PolicyRequest {
  /** As `normaliseHost` returns it. */
  readonly host: string
  readonly port: number
  readonly method: string
  /** Path and query as sent. */
  readonly target: string
  /** Operations of the body or query, once they have been read. */
  readonly graphql?: GraphqlOperations | 'unreadable'
}

const LONGEST_SHOWN = 200

/** A malformed host or path is refused in every mode: rules, modes and people cannot tell what it means to the server. */
export function decideRequest(policy: CompiledPolicy, request: PolicyRequest): Decision {
  const { host, port } = request
  const refusal = hostRefusal(policy, host)
  if (refusal !== null) return block(refusal)
  const read = readPath(request.target)
  if ('reason' in read) return block(read.reason)
  const tcp = policy.tcp.find(host).find(rule => rule.port === port)
  if (tcp !== undefined) return allow(tcp.text)

  const steps = narrow(policy.http.find(host), request, read.path)
  const allowing = steps.method.find(rule => isOperationAllowed(rule, request.graphql))
  if (allowing !== undefined) return allow(allowing.text)
  const decision = decideOutside(policy, 'http', host, port, explain(steps, request))
  const isUndecided = steps.method.length > 0 && request.graphql === undefined && decision.outcome !== 'allowed'
  return isUndecided ? { ...block(explain(steps, request)), needsGraphql: true } : decision
}

/** Rules that still match after each condition. */
type Steps = Readonly<Record<'host' | 'port' | 'path' | 'method', readonly HttpRule[]>>

function narrow(rules: readonly HttpRule[], { port, method }: PolicyRequest, path: string): Steps {
  const byPort = rules.filter(rule => rule.ports.has(port))
  const byPath = byPort.filter(rule => rule.path === null || matchesGlob(rule.path, path))
  return {
    host: rules,
    port: byPort,
    path: byPath,
    method: byPath.filter(rule => rule.methods === null || rule.methods.has(method)),
  }
}

/** SECURITY: a request without operations, or with ones that could not be read, is not allowed by a rule about operations. */
function isOperationAllowed({ graphql }: HttpRule, operations: PolicyRequest['graphql']): boolean {
  if (graphql === null) return true
  if (operations === undefined || operations === 'unreadable' || operations.length === 0) return false
  const allowed = { query: graphql.queries, mutation: graphql.mutations, subscription: graphql.subscriptions }
  return operations.every(kind => allowed[kind])
}

/** The first condition that no rule meets. */
function explain(steps: Steps, { host, port, method, target, graphql }: PolicyRequest): string {
  const place = printable(`${bracketed(host)}${target.replace(/\?.*/s, '')}`)
  if (steps.host.length === 0) return `no rule allows the host ${host}`
  if (steps.port.length === 0) {
    return `the host ${host} is allowed on port ${join(steps.host.flatMap(rule => [...rule.ports]))}, not on port ${port}`
  }
  if (steps.path.length === 0) return `the host ${host} is allowed, but not this path: ${place}`
  if (steps.method.length === 0) {
    const methods = steps.path.flatMap(rule => [...(rule.methods ?? [])])
    return `${place} is allowed with ${join(methods)}, not with ${printable(method)}`
  }
  const kinds = steps.method.flatMap(rule => (rule.graphql === null ? [] : graphqlKinds(rule.graphql)))
  return `${place} is allowed for GraphQL ${join(kinds)}; ${found(graphql)}`
}

function found(graphql: PolicyRequest['graphql']): string {
  if (graphql === undefined) return 'the operations of this request have not been read'
  if (graphql === 'unreadable') return 'this request cannot be read as GraphQL'
  return graphql.length === 0 ? 'this request has no operation' : `this request has ${join(graphql)}`
}

const join = (values: readonly (string | number)[]): string => [...new Set(values)].join(', ') || 'nothing'

/** SECURITY: the sandbox chose this text, and people read it in a terminal. */
const printable = (text: string): string => text.slice(0, LONGEST_SHOWN).replaceAll(/[^!-~]/g, '?')
