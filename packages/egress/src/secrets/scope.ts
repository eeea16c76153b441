// Where the value of a secret may go: hosts, ports and paths.
import type { RequestHead } from '../http/message.ts'
import { matchesGlob } from '../policy/glob.ts'
import { readPath } from '../policy/path.ts'

interface Scoped {
  readonly scopes: readonly string[]
}

const SCOPE = /^([^/:]+)(?::([0-9]+))?(\/.*)?$/
const HTTPS_PORT = 443

/** The secrets that this request may carry. SECURITY: a request without TLS carries none, whatever the scopes say. */
export function secretsInScope<S extends Scoped>(secrets: readonly S[], head: RequestHead): S[] {
  if (head.scheme !== 'https') return []
  return secretsOfHost(secrets, head.host, head.port, path => matchesPath(path, head.target))
}

/** The secrets whose scopes name this host, on whatever port: a server can return in one reply what it received in an earlier request. */
export const secretsNaming = <S extends Scoped>(secrets: readonly S[], host: string): S[] =>
  secrets.filter(({ scopes }) => scopes.some(scope => matchesGlob(SCOPE.exec(scope)?.[1] ?? '', host)))

/** The secrets that requests to this host and port may carry. */
export function secretsOfHost<S extends Scoped>(
  secrets: readonly S[],
  host: string,
  port: number,
  acceptsPath: (path: string) => boolean = () => true,
): S[] {
  return secrets.filter(({ scopes }) =>
    scopes.some(scope => {
      const [, pattern = '', scopePort, path] = SCOPE.exec(scope) ?? []
      if (Number(scopePort ?? HTTPS_PORT) !== port || !matchesGlob(pattern, host)) return false
      return path === undefined || acceptsPath(path)
    }),
  )
}

/** SECURITY: a path that servers read in different ways matches no scope, as it matches no rule of a policy. */
function matchesPath(pattern: string, target: string): boolean {
  const result = readPath(target)
  return 'path' in result && matchesGlob(pattern, result.path)
}
