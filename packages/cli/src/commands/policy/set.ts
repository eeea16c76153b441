// `sandglass policy set`: from a file, from stdin, or from flags.
import { readFile } from 'node:fs/promises'
import { text as textOf } from 'node:stream/consumers'
import { POLICY_MODES, POLICY_NAME, POLICY_NAME_RULE, SandglassError } from '@sandglass/contract/tables'
import { camelName, type PolicyOptions } from '@sandglass/sdk'
import type { Context, Input, Values } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { choiceText, text, texts, usage } from '../../parser/parse.ts'
import type { PolicyFile } from './policy-file.ts'

export async function run({ args, rest, flags }: Input, { connect, json, print, say }: Context): Promise<number> {
  const [name, path, ...more] = [...args, ...(rest ?? [])]
  if (name === undefined) throw usage('NAME is missing')
  if (!POLICY_NAME.test(name)) throw usage(`NAME must be ${POLICY_NAME_RULE}`)
  if (more.length > 0) throw usage(`unexpected argument ${more[0]}: set takes one FILE`)
  const quick = fromFlags(flags)
  if (quick !== undefined && path !== undefined)
    throw usage('give either a file or --domain, --include, --tcp and --mode, not both')
  const file = quick === undefined ? await fromFile(path) : undefined
  const { policies } = await connect()
  try {
    const stored = await policies.set(name, file?.policy ?? quick ?? {})
    if (json) print(toJson(stored))
    else say(`stored ${name}\n`)
  } catch (error) {
    throw file === undefined ? error : withLine(error, file)
  }
  return 0
}

/** The policy that the flags describe; undefined without such flags. */
function fromFlags(flags: Values): PolicyOptions | undefined {
  const [domains, include, tcp] = [texts(flags.domain), texts(flags.include), texts(flags.tcp)]
  const given = text(flags.mode)
  const mode = POLICY_MODES.find(known => known === given)
  if (given !== undefined && mode === undefined) throw usage(`--mode must be ${choiceText(POLICY_MODES)}, not ${given}`)
  if (mode === undefined && [domains, include, tcp].every(list => list.length === 0)) return undefined
  return { domains, include, tcp, ...(mode === undefined ? {} : { mode }) }
}

/** Loads yaml and the schema of policies, which flags do not need. */
async function fromFile(path: string | undefined): Promise<PolicyFile> {
  const { parsePolicy } = await import('./policy-file.ts')
  if (path !== undefined && path !== '-') return parsePolicy(await readText(path), path)
  if (process.stdin.isTTY && path === undefined) throw usage('no policy is given: name a FILE, pipe it in, or give --domain HOST')
  return parsePolicy(await textOf(process.stdin), 'stdin')
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') throw usage(`there is no file ${path}`)
    if (code === 'EISDIR') throw usage(`${path} is a folder, not a file`)
    throw error
  }
}

/** Says where in the file the daemon found a mistake that the schema does not know, such as a policy that does not exist. */
function withLine(error: unknown, { policy, source, at }: PolicyFile): unknown {
  if (!(error instanceof SandglassError)) return error
  if (error.is('INVALID_REQUEST')) {
    const [field = ''] = /^[a-z_]+(?=:? )/.exec(error.message) ?? []
    return error.with({}, `${Object.hasOwn(policy, camelName(field)) ? at([field]) : source}: ${error.message}`)
  }
  const index = error.is('POLICY_NOT_FOUND') ? (policy.include ?? []).indexOf(error.detail.name) : -1
  return index < 0 ? error : error.with({}, `${at(['include', index])}: ${error.message}`)
}
