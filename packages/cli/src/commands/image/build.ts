// `sandglass image build`.
import { LIMITS } from '@sandglass/contract/tables'
import { type BuildResult, SandglassError } from '@sandglass/sdk'
import type { Context, Environment, Input } from '../../command.ts'
import { Progress } from '../../copy/progress.ts'
import { bytesText } from '../../output/bytes-text.ts'
import { printable, printableLines } from '../../output/printable.ts'
import { toJson } from '../../output/show-session.ts'
import { fromNow, parseDuration, shortDuration } from '../../parser/duration.ts'
import { text, texts, usage } from '../../parser/parse.ts'
import { buildContext } from './build-context.ts'
import { BuildLines } from './build-lines.ts'
import { BUILDERS } from './builders.ts'
import { shortId } from './short-name.ts'

export async function run(input: Input, context: Context): Promise<number> {
  const { flags } = input
  const { connect, json, quiet, print, say, env } = context
  const [folder = '.', ...more] = [...input.args, ...(input.rest ?? [])]
  if (more.length > 0) throw usage(`unexpected argument ${more[0]}: the command takes one PATH`)
  const buildArgs = argsFrom(texts(flags['build-arg']), env)
  const leftOut = (what: string) => say(`left out ${printable(what)}\n`)
  const files = await buildContext(folder, { file: text(flags.file), overlay: text(flags.overlay) }, leftOut)
  const reference = text(flags.tag)
  const started = performance.now()
  const client = await connect()
  using sent = new Progress({ isQuiet: quiet })
  using lines = new BuildLines({ quiet })
  const result = await client.images
    .build(sent.through(files.tar), {
      reference,
      dockerfile: files.dockerfile,
      overlay: files.overlay,
      target: text(flags.target),
      builder: BUILDERS.find(name => name === flags.builder),
      entrypoint: flags.entrypoint === true ? true : undefined,
      noCache: flags['no-cache'] === true ? true : undefined,
      maxAgeSeconds: ageFrom(text(flags['max-age'])),
      buildArgs,
      onStep: step => lines.step(step),
      onOutput: output => lines.output(output),
      onProgress: layer => lines.layer(layer),
    })
    .catch(error => {
      lines[Symbol.dispose]()
      if (quiet && !json) showOutput(error)
      throw error
    })
  lines[Symbol.dispose]()
  if (json) print(toJson(result))
  else print(`${lineOf(result, reference, performance.now() - started)}\n`)
  return 0
}

function lineOf({ image, cached, builtAt }: BuildResult, reference: string | undefined, ms: number): string {
  const when = cached ? `built ${fromNow(builtAt)}` : `in ${ms < 10_000 ? `${(ms / 1000).toFixed(1)}s` : shortDuration(ms)}`
  return [...(reference === undefined ? [] : [printable(reference)]), shortId(image.id), bytesText(image.sizeBytes), when].join(
    '  ',
  )
}

/** With --quiet, prints the output of the failed step. */
function showOutput(error: unknown): void {
  if (!(error instanceof SandglassError) || !error.is('IMAGE_BUILD_FAILED')) return
  for (const line of error.detail.output) process.stderr.write(`${printableLines(line)}\n`)
}

/** The value of NAME alone is taken from the environment, so that it is not on the command line. */
export function argsFrom(given: readonly string[], env: Environment): Record<string, string> {
  const args: Record<string, string> = {}
  for (const one of given) {
    const at = one.indexOf('=')
    const name = at < 0 ? one : one.slice(0, at)
    if (!/^\w+$/.test(name)) throw usage(`--build-arg ${name} is not NAME=VALUE`)
    const value = at < 0 ? env[name] : one.slice(at + 1)
    if (value === undefined) throw usage(`--build-arg ${name} has no value, and the environment has no ${name}`)
    args[name] = value
  }
  return args
}

function ageFrom(given: string | undefined): number | undefined {
  if (given === undefined) return undefined
  const seconds = Math.floor(parseDuration(given, 's', '--max-age') / 1000)
  const { min, max } = LIMITS.image_age_seconds
  if (seconds < min || seconds > max) throw usage(`--max-age ${given} is not between ${min} and ${max} seconds`)
  return seconds
}
