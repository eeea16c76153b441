// Leaves out of a suggested policy what other policies allow already.
import type { PolicyCheck, PolicyOptions } from '@sandglass/sdk'

/** Asks whether a policy allows a request; nothing is sent. */
export type Check = (policy: string, url: string, method: string) => Promise<Pick<PolicyCheck, 'allowed' | 'rule'>>

/** More rules are not compared, since each takes several calls. */
const MAX_RULES = 200
/** A rule for every method and path allows these; one for some of them does not. */
const ANY_METHOD = 'X-ANY'
const ANY_TEXT = 'x-any-7f3a1c'

/** The policy with `included` under include, and without the rules that these make superfluous. */
export async function beyondPolicies(
  suggested: PolicyOptions,
  included: readonly string[],
  check: Check,
): Promise<PolicyOptions> {
  const { domains = [], urlPrefixes = [], tcp = [], passThrough = [] } = suggested
  const whole = { ...suggested, include: [...included] }
  if (included.length === 0 || domains.length + urlPrefixes.length + tcp.length + passThrough.length > MAX_RULES) return whole
  // A policy in mode observe allows what no rule of it does.
  const isRuled = async (url: string, method: string, kind = '') => {
    for (const policy of included) {
      const { allowed, rule } = await check(policy, url, method)
      if (allowed && rule?.includes(kind)) return true
    }
    return false
  }
  const areRuled = async (urls: readonly string[], methods: readonly string[]) => {
    for (const url of urls) for (const method of methods) if (!(await isRuled(url, method))) return false
    return true
  }
  return {
    ...whole,
    domains: await without(domains, host => areRuled(urlsOf(host, `/${ANY_TEXT}`), [ANY_METHOD])),
    urlPrefixes: await without(urlPrefixes, ({ host, path = '', methods = [] }) =>
      areRuled(urlsOf(host, pathOf(path)), methods.length > 0 ? methods : [ANY_METHOD]),
    ),
    tcp: await without(tcp, address => areRuled([`tcp://${address}`], [ANY_METHOD])),
    passThrough: await without(passThrough, host => isRuled(`https://${host}/`, ANY_METHOD, ': pass_through ')),
  }
}

async function without<T>(rules: readonly T[], isSuperfluous: (rule: T) => Promise<boolean>): Promise<T[]> {
  const left: T[] = []
  for (const rule of rules) if (!(await isSuperfluous(rule))) left.push(rule)
  return left
}

/** A rule without a port is for http and https. */
const urlsOf = (host: string, path: string) => [
  `https://${host}${path}`,
  ...(/:\d+$/.test(host) ? [] : [`http://${host}${path}`]),
]

/** A path that the pattern allows, and that a narrower one does not; percent-encoded, since patterns are compared with decoded paths. */
const pathOf = (pattern: string) =>
  (pattern === '' ? `/${ANY_TEXT}` : pattern.replaceAll(/[*?]/g, ANY_TEXT)).split('/').map(encodeURIComponent).join('/')
