// `sandglass image inspect`.
import { type ImageInfo, toSnake } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { bytesText } from '../../output/bytes-text.ts'
import { printable } from '../../output/printable.ts'
import { toJson } from '../../output/show-session.ts'
import { hanging, resultWidth } from '../../output/wrap.ts'
import { oneArgument } from '../../parser/parse.ts'

export async function run(input: Input, { connect, json, print }: Context): Promise<number> {
  const image = await (await connect()).images.get(oneArgument(input, 'IMAGE'))
  if (json) print(toJson(image))
  else for (const [field, value] of fields(image)) print(hanging(field.padEnd(18), printable(value), resultWidth(process.stdout)))
  return 0
}

/** The fields of the API, with some made readable, and each setting of the configuration on a line of its own. */
function fields({ config, layers, sizeBytes, references, ...rest }: ImageInfo): [string, string][] {
  return [
    ...Object.entries(toSnake(rest) as object).map(([name, value]): [string, string] => [name, String(value)]),
    ['references', references.join(', ') || '-'],
    ['size', bytesText(sizeBytes)],
    ['layers', String(layers.length)],
    ...Object.entries(config).map(([name, value]): [string, string] => [name, settingText(value)]),
  ]
}

const settingText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))
