// For tests: a server that stands for the models of Anthropic and OpenAI. It plays a list of turns and records what it was asked.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import {
  API_PATHS,
  type Api,
  errorBody,
  REPLIES,
  SHELL_TOOLS,
  type StubContent,
  type StubTool,
  type StubUsage,
  tooLongBody,
} from './stub-replies.fixture.ts'

/** One answer to a request with tools, sent once `after` has resolved. Requests without tools, such as the one for a title, get a fixed text and use up no turn. */
export type StubTurn = { usage?: Partial<StubUsage>; after?: Promise<void> } & (
  | { say: string }
  /** A command line for the shell tool of the agent, with text before it if `say` is given. */
  | { run: string; say?: string }
  | { tool: string; input: object | string }
  /** Several tools at once. */
  | { tools: StubTool[] }
  /** An HTTP status with the provider's error body. */
  | { fail: number; message?: string; headers?: Record<string, string> }
  | { tooLong: true }
  /** A stream whose data is not JSON. */
  | { malformed: true }
  /** A stream that ends in the middle, with the connection. */
  | { cut: true }
  /** No answer until the server closes. */
  | { hang: true }
)

export interface StubOptions {
  /** PEM; with them the server speaks TLS. */
  readonly tls?: { cert: string | Buffer; key: string | Buffer }
  /** Port to listen on; any free one when absent. */
  readonly port?: number
  /** Status with which a WebSocket is refused. */
  readonly upgradeStatus?: number
}

export interface StubRequest {
  /** UPGRADE for a WebSocket. */
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
  /** Whether it used up a turn. */
  readonly isTurn: boolean
}

export interface StubModel extends AsyncDisposable {
  readonly port: number
  /** Without a path: agents append /v1/messages, or expect /v1 in their base URL. */
  readonly url: string
  /** In the order of their arrival. */
  readonly requests: StubRequest[]
  /** Adds turns to those that are left. */
  play(...turns: StubTurn[]): void
  close(): Promise<void>
}

/** The last turn repeats, so that an agent that tries again fails again. */
export async function stubModel(turns: readonly StubTurn[], options: StubOptions = {}): Promise<StubModel> {
  const left = [...turns]
  const requests: StubRequest[] = []
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await text(request)
    const path = (request.url ?? '/').split('?')[0] ?? '/'
    const api = (Object.keys(API_PATHS) as Api[]).find(name => path.endsWith(API_PATHS[name]))
    const asked = api === undefined ? null : parse(body)
    const tools = toolNames(asked)
    const isTurn = tools.length > 0
    requests.push({ method: request.method ?? '', path, headers: request.headers, body, isTurn })
    if (api === undefined || asked === null) return json(response, path === '/api/hello' ? 200 : 404, {})
    const next = isTurn && left.length > 1 ? left.shift() : left[0]
    // A conversation that is too long cannot be summarized by the model either.
    const turn = isTurn || (next !== undefined && 'tooLong' in next) ? next : { say: 'A title' }
    if (turn === undefined) return json(response, 500, errorBody(api, 500, 'the stub has no turn left'))
    await turn.after
    play({ api, model: String(asked.model), tools, isStream: asked.stream !== false, number: requests.length }, turn, response)
  }
  const listener: RequestListener = (request, response) => void answer(request, response).catch(() => response.destroy())
  const server = options.tls === undefined ? createServer(listener) : createTlsServer(options.tls, listener)
  server.on('upgrade', (request: IncomingMessage, socket) => {
    requests.push({ method: 'UPGRADE', path: request.url ?? '', headers: request.headers, body: '', isTurn: false })
    socket.end(`HTTP/1.1 ${options.upgradeStatus ?? 426} Refused\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`)
  })
  server.listen(options.port ?? 0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const close = async () => {
    if (!server.listening) return
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
  return {
    port,
    url: `${options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    requests,
    play: (...more) => void left.push(...more),
    close,
    [Symbol.asyncDispose]: close,
  }
}

type Asked = { api: Api; model: string; tools: string[]; isStream: boolean; number: number }

function play({ api, model, tools: names, isStream, number }: Asked, turn: StubTurn, response: ServerResponse): unknown {
  if ('hang' in turn) return null
  if ('fail' in turn) return json(response, turn.fail, errorBody(api, turn.fail, turn.message ?? null), turn.headers)
  if ('tooLong' in turn) return json(response, 400, tooLongBody(api))
  const id = `call_${number}`
  const tools = toolsOf(turn, command => SHELL_TOOLS[api](command, names))
  const content: StubContent = {
    id: String(number),
    text: 'say' in turn ? (turn.say ?? null) : null,
    tools: tools.map((tool, i) => ({ id: `${id}_${i}`, ...tool })),
    usage: { input: 100, output: 20, cached: 0, ...turn.usage },
  }
  if (!isStream)
    return 'cut' in turn || 'malformed' in turn ? response.end('no JSON') : json(response, 200, whole(api, model, content))
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const events = REPLIES[api](model, content)
  if ('malformed' in turn) return response.end('data: {"type":\n\ndata: this is no JSON\n\n')
  if (!('cut' in turn)) return response.end(events.join(''))
  const begin = REPLIES[api](model, { ...content, text: 'half of' }).slice(0, 2)
  return response.write(begin.join(''), () => response.destroy())
}

function toolsOf(turn: StubTurn, shell: (command: string) => StubTool): StubTool[] {
  if ('run' in turn) return [shell(turn.run)]
  if ('tools' in turn) return turn.tools
  return 'tool' in turn ? [{ name: turn.tool, input: turn.input }] : []
}

/** For clients that do not stream; only the Messages API is used that way. */
function whole(api: Api, model: string, { id, text, tools, usage }: StubContent): object {
  if (api !== 'messages') return errorBody(api, 500, 'the stub only streams')
  const content = [...(text === null ? [] : [{ type: 'text', text }]), ...tools.map(tool => ({ type: 'tool_use', ...tool }))]
  const counted = { input_tokens: usage.input, output_tokens: usage.output, cache_read_input_tokens: usage.cached }
  const stop_reason = tools.length > 0 ? 'tool_use' : 'end_turn'
  return { id: `msg_${id}`, type: 'message', role: 'assistant', model, content, stop_reason, stop_sequence: null, usage: counted }
}

function json(response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(JSON.stringify(body))
}

async function text(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}

type Body = { tools?: unknown; input?: unknown; model?: unknown; stream?: unknown }

/** Tools are in `tools`, below `function`, in namespaces, and in items of the input, depending on API and model. */
function toolNames(body: Body | null): string[] {
  const within = (list: unknown): string[] =>
    (Array.isArray(list) ? list : []).flatMap(item => [item?.name ?? item?.function?.name ?? [], within(item?.tools)].flat())
  return body === null
    ? []
    : [...within(body.tools), ...(Array.isArray(body.input) ? body.input.flatMap(item => within(item?.tools)) : [])]
}

function parse(body: string): Body | null {
  try {
    return JSON.parse(body)
  } catch {
    return null // An empty body, as of a HEAD request.
  }
}
