// For tests: what the three model APIs send. Each function returns the server-sent events of one turn.

export type StubUsage = { input: number; output: number; cached: number }

/** Text as input is for the tools of OpenAI that take no JSON. */
export type StubTool = { name: string; input: object | string }

/** What the model does in a turn: it says something, uses tools, or both. */
export type StubContent = {
  id: string
  text: string | null
  tools: ({ id: string } & StubTool)[]
  usage: StubUsage
}

export type Api = 'messages' | 'responses' | 'chat'

export const API_PATHS: Readonly<Record<Api, string>> = {
  messages: '/messages',
  responses: '/responses',
  chat: '/chat/completions',
}

/** The tool that runs a command line, as the agent that speaks this API calls it; `names` are the tools in its request. */
export const SHELL_TOOLS: Readonly<Record<Api, (command: string, names: readonly string[]) => StubTool>> = {
  messages: (command, names) => ({
    name: names.includes('Bash') ? 'Bash' : 'bash',
    input: { command, description: 'a command' },
  }),
  // For its newer models, codex has one tool, which runs a program in JavaScript that calls the others.
  responses: (cmd, names) => {
    if (names.includes('bash')) return { name: 'bash', input: { command: cmd, description: 'a command' } }
    if (names.includes('exec_command') || !names.includes('exec')) return { name: 'exec_command', input: { cmd } }
    return { name: 'exec', input: `text((await tools.exec_command(${JSON.stringify({ cmd })})).output)` }
  },
  chat: command => ({ name: 'bash', input: { command, description: 'a command' } }),
}

export const REPLIES: Readonly<Record<Api, (model: string, content: StubContent) => string[]>> = {
  messages,
  responses,
  chat,
}

/** The body of a refusal, in the words of the provider. */
export function errorBody(api: Api, status: number, message: string | null): object {
  const [type, text] = ERRORS[status] ?? ['api_error', 'Internal server error']
  if (api === 'messages') return { type: 'error', error: { type, message: message ?? text }, request_id: 'req_stub' }
  return { error: { message: message ?? text, type, param: null, code: status === 401 ? 'invalid_api_key' : null } }
}

/** The refusal of a prompt that does not fit into the model's context. */
export function tooLongBody(api: Api): object {
  if (api === 'messages')
    return {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'prompt is too long: 212345 tokens > 200000 maximum' },
      request_id: 'req_stub',
    }
  const message = 'Your input exceeds the context window of this model. Please adjust your input and try again.'
  return { error: { message, type: 'invalid_request_error', param: 'input', code: 'context_length_exceeded' } }
}

const ERRORS: Readonly<Record<number, readonly [string, string]>> = {
  400: ['invalid_request_error', 'messages.1.content.0: unexpected tool_use_id found in tool_result blocks'],
  401: ['authentication_error', 'invalid x-api-key'],
  403: ['permission_error', 'Your key does not have permission to use this model'],
  404: ['not_found_error', 'model: stub'],
  429: ['rate_limit_error', 'This request would exceed your rate limit'],
  503: ['overloaded_error', 'The server is overloaded'],
  529: ['overloaded_error', 'Overloaded'],
}

const event = (type: string, data: object): string => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`

function messages(model: string, { id, text, tools, usage }: StubContent): string[] {
  const start = {
    input_tokens: usage.input,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: usage.cached,
    output_tokens: 1,
  }
  const blocks = [
    ...(text === null ? [] : [{ start: { type: 'text', text: '' }, delta: { type: 'text_delta', text } }]),
    ...tools.map(({ id, name, input }) => ({
      start: { type: 'tool_use', id, name, input: {} },
      delta: { type: 'input_json_delta', partial_json: JSON.stringify(input) },
    })),
  ]
  const message = {
    id: `msg_${id}`,
    type: 'message',
    role: 'assistant',
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
  }
  const stop_reason = tools.length > 0 ? 'tool_use' : 'end_turn'
  return [
    event('message_start', { message: { ...message, usage: start } }),
    ...blocks.flatMap(({ start, delta }, index) => [
      event('content_block_start', { index, content_block: start }),
      event('content_block_delta', { index, delta }),
      event('content_block_stop', { index }),
    ]),
    event('message_delta', { delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: usage.output } }),
    event('message_stop', {}),
  ]
}

function responses(model: string, { id, text, tools, usage }: StubContent): string[] {
  const items = [
    ...(text === null
      ? []
      : [
          {
            type: 'message',
            id: `msg_${id}`,
            role: 'assistant',
            status: 'completed',
            content: [{ type: 'output_text', text, annotations: [] }],
          },
        ]),
    ...tools.map(({ id: call_id, name, input }) =>
      typeof input === 'string'
        ? { type: 'custom_tool_call', id: `ctc_${call_id}`, call_id, name, input, status: 'completed' }
        : { type: 'function_call', id: `fc_${call_id}`, call_id, name, arguments: JSON.stringify(input), status: 'completed' },
    ),
  ]
  const response = { id: `resp_${id}`, object: 'response', model, output: items }
  const counted = {
    input_tokens: usage.input + usage.cached,
    input_tokens_details: { cached_tokens: usage.cached },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: usage.input + usage.cached + usage.output,
  }
  return [
    event('response.created', { response: { ...response, output: [], status: 'in_progress' } }),
    ...items.flatMap((item, output_index) => [
      event('response.output_item.added', { output_index, item }),
      ...(item.type === 'message'
        ? [event('response.output_text.delta', { output_index, content_index: 0, item_id: item.id, delta: text })]
        : []),
      event('response.output_item.done', { output_index, item }),
    ]),
    event('response.completed', { response: { ...response, status: 'completed', usage: counted } }),
  ]
}

function chat(model: string, { id, text, tools, usage }: StubContent): string[] {
  const chunk = (more: object) =>
    `data: ${JSON.stringify({ id: `chatcmpl-${id}`, object: 'chat.completion.chunk', created: 1, model, ...more })}\n\n`
  const choice = (delta: object, finish_reason: string | null = null) => chunk({ choices: [{ index: 0, delta, finish_reason }] })
  const counted = {
    prompt_tokens: usage.input + usage.cached,
    completion_tokens: usage.output,
    total_tokens: usage.input + usage.cached + usage.output,
    prompt_tokens_details: { cached_tokens: usage.cached },
  }
  return [
    choice({ role: 'assistant', content: text ?? '' }),
    ...tools.map(({ id: callId, name, input }, index) =>
      choice({ tool_calls: [{ index, id: callId, type: 'function', function: { name, arguments: JSON.stringify(input) } }] }),
    ),
    choice({}, tools.length > 0 ? 'tool_calls' : 'stop'),
    chunk({ choices: [], usage: counted }),
    'data: [DONE]\n\n',
  ]
}
