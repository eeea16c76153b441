import type { SandboxClient } from '@sandglass/sdk'
import type { Command, Context } from '../../command.ts'
import { copyBetween } from '../../copy/between.ts'
import type { CopyContext, CopyResult, RemotePath } from '../../copy/copy-context.ts'
import { type Endpoint, HERE, inSession, nameOf, parseEndpoint, withEndpoint } from '../../copy/endpoint.ts'
import { copyFromSandbox, copyToStdout, isHostFolder } from '../../copy/from-sandbox.ts'
import { Omissions } from '../../copy/omissions.ts'
import { Progress } from '../../copy/progress.ts'
import { findRemote } from '../../copy/remote.ts'
import { copyFromStdin, copyToSandbox } from '../../copy/to-sandbox.ts'
import { printable, printableJson } from '../../output/printable.ts'
import { usage } from '../../parser/parse.ts'

export const command: Command = {
  summary: 'Copy files into, out of and between sessions',
  usage: ['FILE|FOLDER|-... NAME:PATH', 'NAME:PATH... FILE|FOLDER|-', 'NAME:PATH... NAME:PATH'],
  about: `A relative PATH starts at /workspace. Without --user root, PATH must be in /workspace, /tmp or /home/sandbox.

A source that is copied into an existing folder keeps its name; FOLDER/. copies the contents of FOLDER. Several sources need an existing
target folder.

- is stdin or stdout. A folder is written to stdout as a tar.

Sockets, pipes, devices and kernel files are left out and named on stderr; that is not an error. Unreadable entries are also left out
and named, and the exit code is then 3. A new target folder appears only when the copy is complete.

Symbolic links are copied into a session unchanged, wherever they point. A copy from a session to this machine is not trusted: entries
that would leave the target folder (absolute names, .., links that point outside) are refused, and set-id bits are dropped.`,
  options: {
    user: {
      type: 'string',
      value: 'USER',
      choices: ['sandbox', 'root'],
      about: 'user whose permissions apply in the session; sandbox by default',
    },
    recursive: { type: 'boolean', short: 'r', about: 'accepted for compatibility; folders are always copied recursively' },
    R: { type: 'boolean', short: 'R', about: 'the same as -r' },
    archive: { type: 'boolean', short: 'a', about: 'accepted for compatibility; modes and symbolic links are always kept' },
    'skip-unsafe': {
      type: 'boolean',
      about: 'from a session: leave out refused entries and name them, instead of stopping',
    },
  },
  completes: 'endpoints',
  async run({ args, rest, flags }, context) {
    const sources = [...args, ...(rest ?? [])].map(parseEndpoint)
    const target = sources.pop()
    if (target === undefined || sources.length === 0) throw usage('cp takes one or more sources and a target')
    refuseEndpoints(sources, target)
    using progress = new Progress({ isQuiet: context.quiet })
    const omissions = new Omissions(progress, context)
    const { onLeftOut, onUnreadable } = omissions
    const copy: CopyContext = {
      progress,
      user: flags.user === undefined ? {} : ({ user: flags.user } as CopyContext['user']),
      onLeftOut,
      onUnreadable,
      onSkip: flags['skip-unsafe'] === true ? error => onLeftOut(`${error.detail.entry}: ${error.detail.issue}`) : undefined,
    }
    const { copied, code } = await copyAll(sources, target, copy, context)
    if (copied && context.json) {
      const { entries, target } = copied
      context.print(
        `${printableJson({ entries, bytes: progress.bytes, target, left_out: omissions.leftOut, unreadable: omissions.unreadable })}\n`,
      )
    }
    progress.clear()
    omissions.requireNoneUnreadable(flags.user !== 'root' && sources.some(({ kind }) => kind === 'sandbox'))
    return code
  },
}

function refuseEndpoints(sources: readonly Endpoint[], target: Endpoint): void {
  if (target.kind !== 'sandbox' && sources.some(({ kind }) => kind !== 'sandbox'))
    throw usage('a source or the target must be NAME:PATH, in a session')
  if (sources.length === 1) return
  if (target.kind === 'stdio' || sources.some(({ kind }) => kind === 'stdio'))
    throw usage('- cannot be combined with other sources')
  const names = sources.flatMap(source => (source.kind === 'stdio' || source.path.endsWith('/.') ? [] : [nameOf(source.path)]))
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) throw usage(`two sources are called ${printable(twice)}: one would replace the other`)
}

/** With several sources, a failed one does not stop the others; its error decides the exit code. */
async function copyAll(
  sources: readonly Endpoint[],
  target: Endpoint,
  copy: CopyContext,
  context: Context,
): Promise<{ copied: CopyResult | undefined; code: number }> {
  const client = await context.connect()
  const [only, ...others] = sources
  if (only !== undefined && others.length === 0) return { copied: await copyOne(client, only, target, copy), code: 0 }
  const folder = await requireFolder(client, target, copy)
  let [entries, code] = [0, 0]
  for (const source of sources) {
    try {
      entries += (await copyOne(client, source, target, copy))?.entries ?? 0
    } catch (error) {
      copy.progress.clear()
      code = await context.report(error)
    }
  }
  return { copied: { entries, target: folder }, code }
}

async function requireFolder(client: SandboxClient, target: Endpoint, copy: CopyContext): Promise<string> {
  if (target.kind === 'stdio') return '-'
  const { path } = target
  const where = target.kind === 'host' ? HERE : inSession(target.session)
  try {
    const isFolder =
      target.kind === 'host' ? await isHostFolder(path) : (await findRemote(remote(client, target), copy))?.kind === 'folder'
    if (isFolder) return path
  } catch (error) {
    throw target.kind === 'sandbox' ? withEndpoint(error, target.session) : withEndpoint(error, '')
  }
  throw usage(`with several sources the target must be an existing folder ${where}: ${path}`)
}

async function copyOne(client: SandboxClient, from: Endpoint, to: Endpoint, copy: CopyContext): Promise<CopyResult | undefined> {
  try {
    if (to.kind === 'sandbox') {
      const target = remote(client, to)
      if (from.kind === 'stdio') return await copyFromStdin(target, copy)
      if (from.kind === 'host') return await copyToSandbox(from.path, target, copy)
      return await copyBetween(remote(client, from), target, copy)
    }
    if (from.kind !== 'sandbox') return undefined
    if (to.kind === 'host') return await copyFromSandbox(remote(client, from), to.path, copy)
    await copyToStdout(remote(client, from), copy)
    return undefined
  } catch (error) {
    throw withEndpoint(error, to.kind === 'sandbox' ? to.session : from.kind === 'sandbox' ? from.session : '')
  }
}

const remote = (client: SandboxClient, { session, path }: Extract<Endpoint, { kind: 'sandbox' }>): RemotePath => ({
  session: client.session(session),
  name: session,
  path,
})
