import type { SandboxClient } from '@sandglass/sdk'
import type { Command, Context } from '../../command.ts'
import { copyBetween } from '../../copy/between.ts'
import type { Copied, Copying, Remote } from '../../copy/copying.ts'
import { copyFromSandbox, copyToStdout, isHostFolder } from '../../copy/from-sandbox.ts'
import { type Location, nameOf, parseLocation } from '../../copy/location.ts'
import { CopyNotes } from '../../copy/notes.ts'
import { Progress } from '../../copy/progress.ts'
import { look } from '../../copy/remote.ts'
import { HERE, inSession, withSide } from '../../copy/sides.ts'
import { copyFromStdin, copyToSandbox } from '../../copy/to-sandbox.ts'
import { printable, printableJson } from '../../output/printable.ts'
import { usage } from '../../parser/parse.ts'

export const command: Command = {
  summary: 'Copy files into, out of and between sessions',
  usage: ['FILE|FOLDER|-... NAME:PATH', 'NAME:PATH... FILE|FOLDER|-', 'NAME:PATH... NAME:PATH'],
  about: `A relative PATH starts at /workspace. Without --user root it must lead to /workspace, /tmp or /home/sandbox.

Into a folder that exists, a copy goes under its own name; FOLDER/. copies what is in it. Several sources need a target folder that
exists.

In the place of a file, - is stdin or stdout; a folder goes to stdout as a tar.

Sockets, pipes, devices and the kernel's own files are left out and named, and as with tar that is no failure. An entry that cannot be
read is named too, the rest is copied, and the exit status is 3. A new target folder appears only when the
copy is complete.

Into a session, symbolic links are copied as they are, wherever they point. What comes out of a sandbox to this machine is not trusted:
entries that would leave the target folder (absolute names, .., links that lead out) are refused, and set-id bits are dropped.`,
  options: {
    user: { type: 'string', value: 'USER', choices: ['sandbox', 'root'], about: 'whose rights the copy has in a session' },
    recursive: { type: 'boolean', short: 'r', about: 'accepted for compatibility; folders are always copied recursively' },
    R: { type: 'boolean', short: 'R', about: 'the same as -r' },
    archive: { type: 'boolean', short: 'a', about: 'accepted for compatibility; modes and symbolic links are always kept' },
    'skip-unsafe': {
      type: 'boolean',
      about: 'out of a session: leave out entries that are refused and say so, instead of stopping',
    },
  },
  completes: 'locations',
  async run({ args, rest, flags }, context) {
    const sources = [...args, ...(rest ?? [])].map(parseLocation)
    const target = sources.pop()
    if (target === undefined || sources.length === 0) throw usage('cp takes one or more sources and a target')
    refuseEnds(sources, target)
    using progress = new Progress({ isQuiet: context.quiet })
    const notes = new CopyNotes(progress, context)
    const { onLeftOut, onUnreadable } = notes
    const copying: Copying = {
      progress,
      user: flags.user === undefined ? {} : ({ user: flags.user } as Copying['user']),
      onLeftOut,
      onUnreadable,
      onSkip: flags['skip-unsafe'] === true ? error => onLeftOut(`${error.detail.entry}: ${error.detail.issue}`) : undefined,
    }
    const { copied, code } = await copyAll(sources, target, copying, context)
    if (copied && context.json) {
      const { entries, target } = copied
      context.print(
        `${printableJson({ entries, bytes: progress.bytes, target, left_out: notes.leftOut, unreadable: notes.unreadable })}\n`,
      )
    }
    progress.clear()
    notes.requireAll(flags.user !== 'root' && sources.some(({ kind }) => kind === 'sandbox'))
    return code
  },
}

function refuseEnds(sources: readonly Location[], target: Location): void {
  if (target.kind !== 'sandbox' && sources.some(({ kind }) => kind !== 'sandbox'))
    throw usage('a source or the target must be NAME:PATH, in a session')
  if (sources.length === 1) return
  if (target.kind === 'stdio' || sources.some(({ kind }) => kind === 'stdio'))
    throw usage('- cannot be combined with other sources')
  const names = sources.flatMap(source => (source.kind === 'stdio' || source.path.endsWith('/.') ? [] : [nameOf(source.path)]))
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) throw usage(`two sources are called ${printable(twice)}: one would replace the other`)
}

/** Of several sources, one that fails does not keep the others; its failure decides the exit code. */
async function copyAll(
  sources: readonly Location[],
  target: Location,
  copying: Copying,
  context: Context,
): Promise<{ copied: Copied | undefined; code: number }> {
  const client = await context.connect()
  const [only, ...others] = sources
  if (only !== undefined && others.length === 0) return { copied: await copyOne(client, only, target, copying), code: 0 }
  const folder = await requireFolder(client, target, copying)
  let [entries, code] = [0, 0]
  for (const source of sources) {
    try {
      entries += (await copyOne(client, source, target, copying))?.entries ?? 0
    } catch (error) {
      copying.progress.clear()
      code = await context.report(error)
    }
  }
  return { copied: { entries, target: folder }, code }
}

async function requireFolder(client: SandboxClient, target: Location, copying: Copying): Promise<string> {
  if (target.kind === 'stdio') return '-'
  const { path } = target
  const where = target.kind === 'host' ? HERE : inSession(target.session)
  try {
    const isFolder =
      target.kind === 'host' ? await isHostFolder(path) : (await look(remote(client, target), copying))?.kind === 'folder'
    if (isFolder) return path
  } catch (error) {
    throw target.kind === 'sandbox' ? withSide(error, target.session) : withSide(error, '')
  }
  throw usage(`with several sources the target must be an existing folder ${where}: ${path}`)
}

async function copyOne(client: SandboxClient, from: Location, to: Location, copying: Copying): Promise<Copied | undefined> {
  try {
    if (to.kind === 'sandbox') {
      const target = remote(client, to)
      if (from.kind === 'stdio') return await copyFromStdin(target, copying)
      if (from.kind === 'host') return await copyToSandbox(from.path, target, copying)
      return await copyBetween(remote(client, from), target, copying)
    }
    if (from.kind !== 'sandbox') return undefined
    if (to.kind === 'host') return await copyFromSandbox(remote(client, from), to.path, copying)
    await copyToStdout(remote(client, from), copying)
    return undefined
  } catch (error) {
    throw withSide(error, to.kind === 'sandbox' ? to.session : from.kind === 'sandbox' ? from.session : '')
  }
}

const remote = (client: SandboxClient, { session, path }: Extract<Location, { kind: 'sandbox' }>): Remote => ({
  session: client.session(session),
  name: session,
  path,
})
