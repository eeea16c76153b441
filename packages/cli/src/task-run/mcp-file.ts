// The file of --mcp: MCP servers by name, in the form of the API or in that of an .mcp.json.
import { readFileSync } from 'node:fs'
import type { TaskOptions } from '@sandglass/sdk'
import { toCamel } from '@sandglass/sdk'
import { usage } from '../parser/parse.ts'

export type McpServers = NonNullable<TaskOptions['mcp']>

export function readMcpFile(path: string): McpServers {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw usage(`--mcp ${path} cannot be read: ${(error as Error).message}`)
  }
  return mcpServers(text, path)
}

/** `{ "mcpServers": { NAME: … } }` or `{ NAME: … }`. SECURITY: no message quotes the file, which may hold keys. */
export function mcpServers(text: string, path: string): McpServers {
  const parsed = parse(text, path)
  const named = isObject(parsed.mcpServers) ? parsed.mcpServers : parsed
  return Object.fromEntries(Object.entries(named).map(([name, server]) => [name, serverOf(name, server, path)]))
}

function serverOf(name: string, server: unknown, path: string): McpServers[string] {
  if (!isObject(server)) throw usage(`--mcp ${path}: ${name} is not an object`)
  const { type: _, args, command, headers, ...more } = server
  if (isObject(headers) && Object.keys(headers).length > 0)
    throw usage(
      `--mcp ${path}: ${name} has headers, which may hold keys`,
      'store the key with `sandglass secret set`, and name it in the field secret',
    )
  const rest = toCamel(more) as McpServers[string]
  if (typeof command !== 'string') return command === undefined ? rest : ({ ...rest, command } as McpServers[string])
  return { ...rest, command: [command, ...(Array.isArray(args) ? args.map(String) : [])] }
}

function parse(text: string, path: string): Record<string, unknown> {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    throw usage(`--mcp ${path} is not JSON`)
  }
  if (!isObject(parsed)) throw usage(`--mcp ${path} is not a JSON object`)
  return parsed
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
