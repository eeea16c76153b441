// Build arguments that look like secrets. They do not belong into a build: a step may write them into the image. They are kept out of what is
// shown and stored all the same.

const SECRET_NAME = /(pass(word|wd|phrase)?|secret|token|credential|auth|private|key(_?file)?)s?(_|$|\d)/i
const HIDDEN = '***'
/** Replacing a shorter one would tear up words. */
const LEAST = 4

export const looksSecret = (name: string): boolean => SECRET_NAME.test(name)

/** The text without the values of arguments that look like secrets. */
export function hideSecrets(text: string, buildArgs: Readonly<Record<string, string>>): string {
  const secrets = Object.entries(buildArgs).flatMap(([name, value]) => (looksSecret(name) ? parts(value) : []))
  // One may be the beginning of another.
  return secrets.toSorted((a, b) => b.length - a.length).reduce((shown, secret) => shown.replaceAll(secret, HIDDEN), text)
}

/** A secret of several lines is also told of line by line. */
const parts = (value: string): string[] => [value, ...value.split(/\r?\n/)].filter(part => part.length >= LEAST)

type History = { created_by?: unknown; [field: string]: unknown }
type BuiltConfig = { history?: History[]; container?: unknown; container_config?: unknown; [field: string]: unknown }

/** The configuration of a built image without what the engine keeps of the build: its container, and every argument's value. */
export function withoutArgs(config: Buffer, buildArgs: Readonly<Record<string, string>>): Buffer {
  const { container: _, container_config: __, history, ...rest } = JSON.parse(config.toString('utf8')) as BuiltConfig
  const told = history?.map(({ created_by, ...entry }) =>
    typeof created_by === 'string' ? { ...entry, created_by: hideArgs(created_by, buildArgs) } : entry,
  )
  return Buffer.from(JSON.stringify({ ...rest, ...(told ? { history: told } : {}) }))
}

function hideArgs(text: string, buildArgs: Readonly<Record<string, string>>): string {
  let shown = text
  for (const [name, value] of Object.entries(buildArgs))
    if (value !== '') shown = shown.replaceAll(`${name}=${value}`, `${name}=${HIDDEN}`)
  return hideSecrets(shown, buildArgs)
}
