// The arguments of the actions of `sandglass secret`. SECURITY: no message repeats an argument, which may be a value in the wrong place.
import { LIMITS, SECRET_NAME } from '@sandglass/contract/tables'
import type { Input } from '../../command.ts'
import { usage } from '../../parser/parse.ts'

/** The names of secrets that are given. */
export function secretNames({ args, rest }: Pick<Input, 'args' | 'rest'>): readonly string[] {
  const names = [...args, ...(rest ?? [])]
  if (names.every(name => SECRET_NAME.test(name))) return names
  throw usage(`NAME has 1 to ${LIMITS.secret_name.max} characters of a-z, A-Z, 0-9, ., _ and -, and begins with a letter`)
}

/** The one name of an action that also reads a value. */
export function secretName(action: string, input: Pick<Input, 'args' | 'rest'>): string {
  const [name, ...others] = secretNames(input)
  if (others.length > 0 || name === undefined)
    throw usage(`${action} takes one NAME; the value comes from a prompt or from stdin, never from the command line`)
  return name
}
