// Network policies: decisions about names, connections, requests and addresses, as pure functions.
//
// In the order of use: `compilePolicy` once per change, `decideName` for a DNS question, `decideConnection` before a byte is read, `decideRequest`
// for each request, `isAddressAllowed` for each address before the connection to it.
export { isAddressAllowed } from './addresses/address-check.ts'
export { checkUrl, type UrlCheck } from './check.ts'
export { type CompiledPolicy, compilePolicy, type PolicyInput, type SessionRule } from './compile.ts'
export { type ConnectionDecision, decideConnection, decideName, type NameDecision } from './decide-connection.ts'
export { decideRequest, type PolicyRequest } from './decide-request.ts'
export { hasWildcard, matchesGlob } from './glob.ts'
export { type GraphqlOperations, type GraphqlRequest, readGraphql } from './graphql/graphql.ts'
export { bracketed, isAddress, normaliseHost } from './host.ts'
export type { Decision, Outcome } from './outside.ts'
export { readPath } from './path.ts'
export { suggestPolicy } from './suggest.ts'
