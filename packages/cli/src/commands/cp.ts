import type { SandboxClient } from '@sandglass/sdk'
import type { Command } from '../command.ts'
import { type Copied, copyFromSandbox, copyToStdout } from '../copy/from-sandbox.ts'
import { type Location, parseLocation } from '../copy/location.ts'
import { Progress } from '../copy/progress.ts'
import { withSide } from '../copy/sides.ts'
import { copyFromStdin, copyToSandbox } from '../copy/to-sandbox.ts'
import { usage } from '../parse.ts'
import { printable, printableJson } from '../printable.ts'

export const command: Command = {
  summary: 'Copy files into or out of a session',
  usage: ['FILE|FOLDER|- NAME:PATH', 'NAME:PATH FILE|FOLDER|-'],
  about: `A relative PATH starts at /workspace; an absolute one is below /workspace, /tmp or /home/sandbox. From other places, let
a program print it: sandglass exec NAME -- cat /etc/os-release >FILE

Into a folder that exists, a copy goes under its own name; FOLDER/. copies what is in it.

In the place of a file, - is stdin or stdout; a folder goes to stdout as a tar.

Sockets, pipes and devices are left out and named, and as with tar that is no failure.

What comes out of a sandbox is not trusted: entries that would leave the target folder (absolute names, .., links that lead
out) are refused, and set-id bits are dropped.`,
  options: {
    recursive: { type: 'boolean', short: 'r', about: 'changes nothing: a folder is always copied with what is in it' },
    'skip-unsafe': { type: 'boolean', about: 'leave out entries that are refused and say so, instead of stopping' },
  },
  completes: 'locations',
  async run({ args, rest, flags }, context) {
    const [source, target, ...more] = [...args, ...(rest ?? [])]
    if (source === undefined || target === undefined || more.length > 0) throw usage('cp takes a source and a target')
    const [from, to] = [parseLocation(source), parseLocation(target)]
    if ((from.kind === 'sandbox') === (to.kind === 'sandbox')) {
      throw usage(from.kind === 'sandbox' ? 'copy out of one session first, then into the other' : 'one side must be NAME:PATH')
    }
    using progress = new Progress({ isQuiet: context.quiet })
    const leftOut: string[] = []
    const leaveOut = (what: string) => {
      leftOut.push(what)
      progress[Symbol.dispose]()
      context.say(`left out ${printable(what)}\n`)
    }
    const copied = await copy(await context.connect(), from, to, {
      progress,
      leaveOut,
      skipsUnsafe: flags['skip-unsafe'] === true,
    })
    if (copied && context.json) {
      const { entries, target } = copied
      context.print(`${printableJson({ entries, bytes: progress.bytes, target, left_out: leftOut })}\n`)
    }
    return 0
  },
}

type Watch = { progress: Progress; leaveOut: (what: string) => void; skipsUnsafe: boolean }

async function copy(client: SandboxClient, from: Location, to: Location, watch: Watch): Promise<Copied | undefined> {
  const name = to.kind === 'sandbox' ? to.session : from.kind === 'sandbox' ? from.session : ''
  const session = client.session(name)
  const { progress, leaveOut, skipsUnsafe } = watch
  try {
    if (to.kind === 'sandbox') {
      if (from.kind === 'stdio') return await copyFromStdin(session, to.path, progress)
      if (from.kind === 'host') return await copyToSandbox(session, from.path, to.path, progress, leaveOut)
    } else if (from.kind === 'sandbox') {
      if (to.kind === 'stdio') await copyToStdout(session, from.path, progress, leaveOut)
      else
        return await copyFromSandbox(session, from.path, to.path, progress, {
          onLeftOut: leaveOut,
          onSkip: skipsUnsafe ? error => leaveOut(`${error.detail.entry}: ${error.detail.issue}`) : undefined,
        })
    }
    return undefined
  } catch (error) {
    throw withSide(error, name)
  }
}
