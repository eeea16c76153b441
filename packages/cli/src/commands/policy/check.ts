// `sandglass policy check`.
import type { PolicyCheck } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { printable } from '../../output/printable.ts'
import { toJson } from '../../output/show-session.ts'
import { text, usage } from '../../parser/parse.ts'

const REFUSED = 1
const SCHEMES = ['http', 'https', 'ws', 'wss', 'tcp']

export async function run({ args, rest, flags }: Input, { connect, json, print }: Context): Promise<number> {
  const [name, url, ...more] = [...args, ...(rest ?? [])]
  if (name === undefined || url === undefined) throw usage(`${name === undefined ? 'NAME' : 'URL'} is missing`)
  if (more.length > 0) throw usage(`unexpected argument ${more[0]}: check takes one URL`)
  requireUrl(url)
  const checked = await (await connect()).policies.check(name, url, { method: text(flags.method) })
  print(json ? toJson(checked) : `${printable(verdict(checked))}\n`)
  return checked.allowed ? 0 : REFUSED
}

function requireUrl(given: string): void {
  const [, scheme] = /^([a-z][a-z0-9+.-]*):\/\//i.exec(given) ?? []
  if (scheme === undefined) throw usage(`URL needs a scheme: write https://${given}, or tcp://HOST:PORT`)
  if (!SCHEMES.includes(scheme.toLowerCase()))
    throw usage(`URL must begin with http://, https://, ws:// or wss://, or be tcp://HOST:PORT, not ${scheme}://`)
  if (scheme.toLowerCase() === 'tcp' && !/:\d+$/.test(given)) throw usage(`URL must be tcp://HOST:PORT, not ${given}`)
}

/** The reason names the rule, if there is one: `allowed by npm: domains example.com`. */
function verdict({ allowed, reason }: PolicyCheck): string {
  const word = allowed ? 'allowed' : 'refused'
  return reason.startsWith(word) ? reason : `${word}: ${reason}`
}
