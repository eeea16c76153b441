// Public DNS-over-HTTPS resolvers. Network nat refuses them unless a rule names them: names that a program resolves there are seen by nobody.

/** Subdomains belong to them. */
const DOMAINS: ReadonlySet<string> = new Set([
  'adguard-dns.com',
  'cloudflare-dns.com',
  'cloudflare-gateway.com',
  'cleanbrowsing.org',
  'controld.com',
  'dns.aa.net.uk',
  'dns.adguard.com',
  'dns.alidns.com',
  'dns.digitale-gesellschaft.ch',
  'dns.google',
  'dns.google.com',
  'dns.mullvad.net',
  'dns.nextdns.io',
  'dns.njal.la',
  'dns.pub',
  'dns.quad9.net',
  'dns.sb',
  'dns.switch.ch',
  'dns.twnic.tw',
  'dns.umbrella.com',
  'dns0.eu',
  'dns10.quad9.net',
  'dns11.quad9.net',
  'dns12.quad9.net',
  'dns9.quad9.net',
  'dnsforge.de',
  'doh.360.cn',
  'doh.applied-privacy.net',
  'doh.ffmuc.net',
  'doh.libredns.gr',
  'doh.opendns.com',
  'doh.familyshield.opendns.com',
  'doh.pub',
  'doh.sandbox.opendns.com',
  'doh.umbrella.com',
  'doh.xfinity.com',
  'joindns4.eu',
  'odvr.nic.cz',
  'one.one.one.one',
  'ordns.he.net',
  'public.dns.iij.jp',
  'wikimedia-dns.org',
])

const ADDRESSES: ReadonlySet<string> = new Set([
  ...['1.1.1.1', '1.1.1.2', '1.1.1.3', '1.0.0.1', '1.0.0.2', '1.0.0.3', '2606:4700:4700::1111', '2606:4700:4700::1001'],
  ...['8.8.8.8', '8.8.4.4', '2001:4860:4860::8888', '2001:4860:4860::8844'],
  ...['9.9.9.9', '9.9.9.10', '9.9.9.11', '149.112.112.112', '149.112.112.10', '149.112.112.11', '2620:fe::fe', '2620:fe::9'],
  ...['94.140.14.14', '94.140.15.15', '208.67.220.220', '208.67.222.222', '223.5.5.5', '223.6.6.6'],
])

/** For a normalised host. */
export function isDohResolver(host: string): boolean {
  if (ADDRESSES.has(host)) return true
  const labels = host.split('.')
  return labels.some((_, i) => DOMAINS.has(labels.slice(i).join('.')))
}
