// Commands with actions, such as `image pull`. Each action is a file, which is loaded when it runs.
import type { Command, Context, Input } from '../command.ts'
import { suggestion, usage } from './parse.ts'

export type Actions = Readonly<Record<string, () => Promise<{ run(input: Input, context: Context): Promise<number> }>>>

/** The `run` of a command whose first argument names an action. SECURITY: no message repeats an argument, which may be the value of a secret. */
export function runAction(command: string, actions: Actions): Command['run'] {
  return async (input, context) => {
    const [action = '', ...args] = input.args
    const load = Object.hasOwn(actions, action) ? actions[action] : undefined
    if (load === undefined) throw unknownAction(command, action, Object.keys(actions))
    const { run } = await load()
    return run({ ...input, args }, context)
  }
}

function unknownAction(command: string, action: string, known: readonly string[]): Error {
  const meant = suggestion(action, known)
  return usage(`${command} has the actions ${known.join(', ')}${meant ? `; did you mean ${meant}?` : ''}`)
}
