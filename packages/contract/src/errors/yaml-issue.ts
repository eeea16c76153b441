/** What is wrong with a YAML file. SECURITY: the parser's message quotes the file, which may hold keys; only a key's name and the place are told. */
export function yamlIssue(text: string, error: unknown): string {
  const { code, linePos } = error as { code?: unknown; linePos?: readonly { line: number; col: number }[] }
  const at = linePos?.[0]
  if (at === undefined) return 'is not YAML'
  const key = /^["']?([a-z_]{1,64})["']?\s*:/.exec((text.split('\n')[at.line - 1] ?? '').slice(at.col - 1))?.[1]
  if (code === 'DUPLICATE_KEY' && key !== undefined) return `has the key ${key} twice (line ${at.line}): keep one`
  return `is not YAML (line ${at.line})`
}
