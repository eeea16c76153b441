import type { SandboxClient } from '@sandglass/sdk'
import type { Command, Context } from '../command.ts'
import { type Copied, copyFromSandbox, copyToStdout } from '../copy/from-sandbox.ts'
import { type Location, parseLocation } from '../copy/location.ts'
import { Progress } from '../copy/progress.ts'
import { copyFromStdin, copyToSandbox } from '../copy/to-sandbox.ts'
import { usage } from '../parse.ts'
import { printable } from '../printable.ts'

export const command: Command = {
  summary: 'Copy files into or out of a session',
  usage: ['FILE|FOLDER|- NAME:PATH', 'NAME:PATH FILE|FOLDER|-'],
  about: `A relative PATH starts at /workspace. Into a folder that exists, a copy goes under its own name; FOLDER/. copies what is in it.
- is stdin or stdout; a folder goes to stdout as a tar.

What comes out of a sandbox is not trusted: entries that would leave the target folder (absolute names, .., links that lead
out), devices and pipes are refused, and set-id bits are dropped.`,
  options: {
    recursive: { type: 'boolean', short: 'r', about: 'changes nothing: a folder is always copied with what is in it' },
    'skip-unsafe': { type: 'boolean', about: 'leave out entries that are refused and say so, instead of stopping' },
  },
  completes: 'sessions',
  async run({ args, rest, flags }, context) {
    const [source, target, ...more] = [...args, ...(rest ?? [])]
    if (source === undefined || target === undefined || more.length > 0) throw usage('cp takes a source and a target')
    const [from, to] = [parseLocation(source), parseLocation(target)]
    if ((from.kind === 'sandbox') === (to.kind === 'sandbox')) {
      throw usage(from.kind === 'sandbox' ? 'copy out of one session first, then into the other' : 'one side must be NAME:PATH')
    }
    using progress = new Progress({ isQuiet: context.quiet })
    const copied = await copy(await context.connect(), from, to, progress, flags['skip-unsafe'] === true, context)
    progress[Symbol.dispose]()
    if (copied && context.json)
      context.print(`${JSON.stringify({ entries: copied.entries, bytes: progress.bytes, target: copied.target })}\n`)
    return 0
  },
}

async function copy(
  client: SandboxClient,
  from: Location,
  to: Location,
  progress: Progress,
  skipsUnsafe: boolean,
  { say }: Context,
): Promise<Copied | undefined> {
  if (to.kind === 'sandbox') {
    const session = client.session(to.session)
    if (from.kind === 'stdio') return copyFromStdin(session, to.path, progress)
    if (from.kind === 'host')
      return copyToSandbox(session, from.path, to.path, progress, path =>
        say(`left out ${printable(path)}: not a file, folder or link\n`),
      )
  } else if (from.kind === 'sandbox') {
    const session = client.session(from.session)
    if (to.kind === 'host') {
      const onSkip = skipsUnsafe ? (error: Error) => say(`left out: ${printable(error.message)}\n`) : undefined
      return copyFromSandbox(session, from.path, to.path, progress, { onSkip })
    }
    await copyToStdout(session, from.path, progress)
  }
  return undefined
}
