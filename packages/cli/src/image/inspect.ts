import type { Context, Input } from '../command.ts'
import { oneArgument } from '../parse.ts'
import { toJson } from '../show-session.ts'

export async function run(input: Input, { connect, print }: Context): Promise<number> {
  print(toJson(await (await connect()).images.get(oneArgument(input, 'IMAGE'))))
  return 0
}
