// The hosts of a policy: which texts are one, and what is wrong with any other text.
import { z } from 'zod'

const HOST_PATTERN = /^[a-z0-9_*?-]{1,63}(\.[a-z0-9_*?-]{1,63})*$/i
const PORT = /^[1-9][0-9]{0,4}$/
const MAX_HOST = 253
const MAX_RULE = 260
/** Registries sell names below these, as in example.co.uk. */
const SECOND_LEVEL = /\.(ac|co|com|edu|go|gov|gob|ne|net|or|org)\.[a-z]{2}$/i

/** A host without a port. */
export const HostPattern = z
  .string()
  .max(MAX_HOST, { abort: true })
  .refine(isHost, { error: ({ input }) => hostIssue(String(input)) })
  .overwrite(normalRule)

/** `host` or `host:port`. */
export const HostRule = z
  .string()
  .max(MAX_RULE, { abort: true })
  .refine(isRule, { error: ({ input }) => ruleIssue(String(input)) })
  .overwrite(normalRule)

/** `host:port` without wildcards. */
export const TcpRule = z
  .string()
  .max(MAX_RULE, { abort: true })
  .refine(text => isRule(text) && splitPort(text)[1] !== null && !hasWildcard(text), {
    error: ({ input }) => tcpIssue(String(input)),
  })
  .overwrite(normalRule)

/** The host and the port of a rule; the port is null if the rule has none. An IPv6 address has brackets. */
export function splitPort(rule: string): [host: string, port: string | null] {
  const match = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(rule)
  return match === null ? [rule, null] : [match[1] ?? '', match[2] ?? null]
}

export const hasWildcard = (text: string): boolean => /[*?]/.test(text)

/** In lower case, and without the dot that may end a host name. */
function normalRule(text: string): string {
  const [host, port] = splitPort(text.toLowerCase())
  return port === null ? withoutDot(host) : `${withoutDot(host)}:${port}`
}

const withoutDot = (host: string) => host.replace(/\.$/, '')

// The conditions are functions, because a schema for each of the thousands of rules of a policy would take longer than all else.

function isHost(text: string): boolean {
  const host = withoutDot(text)
  return host.length <= MAX_HOST && (isAddress(host) || (HOST_PATTERN.test(host) && !endsInNumber(host) && !isTooWide(host)))
}

function isRule(text: string): boolean {
  const [host, port] = splitPort(text)
  return isHost(host) && (port === null || isPort(port))
}

const isPort = (text: string) => PORT.test(text) && Number(text) <= 65_535
const [IPV4, IPV6] = [z.ipv4(), z.ipv6()]
/** The first test of each form is for speed: few rules are addresses. */
const isAddress = (text: string) =>
  (/^[0-9.]+$/.test(text) && IPV4.safeParse(text).success) ||
  (/^\[.*\]$/s.test(text) && IPV6.safeParse(text.slice(1, -1)).success)

/** SECURITY: a name that ends in a number is another spelling of an IPv4 address to many programs: 127.1, 0x7f.1, 010.0.0.1. */
const endsInNumber = (text: string) => /(^|\.)(\d+|0x[0-9a-f]*)$/i.test(text)

/** SECURITY: a wildcard in the last two labels, or three below co.uk and the like, would allow names that anybody can register. */
const isTooWide = (host: string) => hasWildcard(host.split('.').slice(-ownedLabels(host)).join('.'))
const ownedLabels = (host: string) => (SECOND_LEVEL.test(host) ? 3 : 2)

function hostIssue(text: string): string {
  const [host, port] = splitPort(text)
  return port !== null && /^\d*$/.test(port) && isHost(host)
    ? `${quoted(text)} has a port, which cannot be given here; write ${withoutDot(host)}`
    : issueOf(text, url => `write ${url.host}`)
}

const ruleIssue = (text: string) =>
  issueOf(text, ({ host, port }) => `write ${host}${port} here, or host and path under url_prefixes`)

function tcpIssue(text: string): string {
  const [host, port] = splitPort(text)
  if (isRule(text) && hasWildcard(text)) return `${quoted(text)} has a wildcard; a rule of tcp names one host`
  if (isHost(host) && port === null) return `${quoted(text)} has no port; write host:port, such as ${withoutDot(host)}:5432`
  return issueOf(text, url => `write ${url.host}${url.port || ':443'}`)
}

/** A host as a URL has it, with `port` as `:8443` or empty. */
type UrlHost = { host: string; port: string }

/** What is wrong with a text that is neither a host nor host:port. `instead` is what to write in the place of a URL or a path. */
function issueOf(text: string, instead: (url: UrlHost) => string): string {
  if (text === '') return 'must not be empty'
  // SECURITY: a URL may have a password, which no message may show.
  if (text.includes('@')) return 'must be a host, without a user name or password'
  const shown = quoted(text)
  if (/\s/.test(text)) return `${shown} has a space in it`
  const [, scheme, before = ''] = /^([a-z][a-z0-9+.-]*:\/\/)?([^/?#]*)/i.exec(text) ?? []
  if (/^[0-9a-f.:]+\/\d+$/i.test(text)) return `${shown} is a range of addresses; list the addresses one by one`
  if (scheme !== undefined || before.length < text.replace(/[?#].*$/s, '').length)
    return `${shown} ${scheme === undefined ? 'has a path' : 'is a URL'}; ${urlAdvice(before, instead)}`
  return shown + nameIssue(text)
}

function urlAdvice(authority: string, instead: (url: UrlHost) => string): string {
  const [host, port] = splitPort(withoutDot(authority))
  return isRule(authority) ? instead({ host, port: port === null ? '' : `:${port}` }) : 'write a host alone, such as example.com'
}

function nameIssue(text: string): string {
  const [host, port] = splitPort(text)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the characters of ASCII
  if (/[^\x00-\x7f]/.test(text)) return ` is not ASCII; write the name in punycode${punycode(host)}`
  if (/^[0-9a-f]*:[0-9a-f.]*:[0-9a-f:.]*$/i.test(text)) return `: write an IPv6 address in brackets, such as [${text}]`
  if (isHost(host) && port !== null) return ' has no valid port; write a number from 1 to 65535 after the colon'
  const name = withoutDot(host)
  if (HOST_PATTERN.test(name) && isTooWide(name))
    return ownedLabels(name) === 3
      ? ' is too wide: the last three labels cannot have a wildcard below co.uk and the like'
      : ' is too wide: the last two labels cannot have a wildcard'
  if (HOST_PATTERN.test(name) && endsInNumber(name)) return ' ends in a number, but is no IPv4 address such as 192.0.2.1'
  return ' is not a host; write example.com, *.example.com, or an IP address, IPv6 in brackets'
}

/** `: xn--…`, or nothing for a name that has no such form. */
function punycode(host: string): string {
  const name = URL.parse(`http://${host}`)?.hostname ?? ''
  return isHost(name) ? `: ${name}` : ', which begins with xn--'
}

const MAX_QUOTED = 80
const quoted = (text: string) => JSON.stringify(text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED)}…` : text)
