// `sandglass image hash`: the content hash of a build, without building.
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { text, texts, usage } from '../../parser/parse.ts'
import { argsFrom } from './build.ts'
import { buildContext } from './build-context.ts'

export async function run(input: Input, { connect, json, print, env }: Context): Promise<number> {
  const { flags } = input
  const [folder = '.', ...more] = [...input.args, ...(input.rest ?? [])]
  if (more.length > 0) throw usage(`unexpected argument ${more[0]}: the command takes one PATH`)
  const buildArgs = argsFrom(texts(flags['build-arg']), env)
  const files = await buildContext(folder, { file: text(flags.file), overlay: undefined }, () => undefined)
  const client = await connect()
  const options = { dockerfile: files.dockerfile, target: text(flags.target), buildArgs }
  const result = await client.images.hash(files.tar, options)
  print(json ? toJson(result) : `${result.hash}\n`)
  return 0
}
