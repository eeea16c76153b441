// Which Host headers a loopback listener answers to.
import { isIP } from 'node:net'

/**
 * SECURITY: a web page whose name was made to resolve to 127.0.0.1 (DNS rebinding) talks to this listener from the user's browser, as
 * its own origin. Its Host header still carries the page's name, so only addresses and localhost are answered.
 */
export function isLocalHost(header: string | undefined): boolean {
  if (header === undefined) return true
  const host = header.replace(/:\d+$/, '').toLowerCase()
  return (
    host === 'localhost' ||
    host.endsWith('.localhost') ||
    isIP(host) !== 0 ||
    (host.startsWith('[') && isIP(host.slice(1, -1)) === 6)
  )
}

/** Whether a browser's Origin is the page of this very host. Programs send none. */
export function isSameOrigin(origin: string | undefined, host: string | undefined): boolean {
  if (origin === undefined) return true
  return URL.canParse(origin) && new URL(origin).host === host
}
