// Hides build arguments that look like secrets. A build should not get secrets, because a step may write them into the image; if it does, they are
// kept out of output, errors and the stored configuration.

const SECRET_NAME = /(pass(word|wd|phrase)?|secret|token|credential|auth|private|key(_?file)?)s?(_|$|\d)/i
const HIDDEN = '***'
/** Shorter values are not replaced, because they occur inside ordinary words. */
const MIN_LENGTH = 4

export const looksSecret = (name: string): boolean => SECRET_NAME.test(name)

/** Replaces the values of arguments that look like secrets. */
export function hideSecrets(text: string, buildArgs: Readonly<Record<string, string>>): string {
  const secrets = Object.entries(buildArgs).flatMap(([name, value]) => (looksSecret(name) ? parts(value) : []))
  // Longest first: one secret may be a prefix of another.
  return secrets.toSorted((a, b) => b.length - a.length).reduce((shown, secret) => shown.replaceAll(secret, HIDDEN), text)
}

/** The lines of a secret are hidden as well, because output may show them one at a time. */
const parts = (value: string): string[] => [value, ...value.split(/\r?\n/)].filter(part => part.length >= MIN_LENGTH)

type History = { created_by?: unknown; [field: string]: unknown }
type BuiltConfig = { history?: History[]; container?: unknown; container_config?: unknown; [field: string]: unknown }

/** Removes the engine's build container and all argument values from the configuration of a built image. */
export function withoutArgs(config: Buffer, buildArgs: Readonly<Record<string, string>>): Buffer {
  const { container: _, container_config: __, history, ...rest } = JSON.parse(config.toString('utf8')) as BuiltConfig
  const cleaned = history?.map(({ created_by, ...entry }) =>
    typeof created_by === 'string' ? { ...entry, created_by: hideArgs(created_by, buildArgs) } : entry,
  )
  return Buffer.from(JSON.stringify({ ...rest, ...(cleaned ? { history: cleaned } : {}) }))
}

function hideArgs(text: string, buildArgs: Readonly<Record<string, string>>): string {
  let shown = text
  for (const [name, value] of Object.entries(buildArgs))
    if (value !== '') shown = shown.replaceAll(`${name}=${value}`, `${name}=${HIDDEN}`)
  return hideSecrets(shown, buildArgs)
}
