// The WebSockets for processes, shells and ports, free of zod so that the SDK can carry it.

/**
 * Channels of the WebSockets for processes and shells. Each binary message is one channel byte and its payload:
 * bytes for stdin, stdout and stderr; JSON for exit ({exit_code, timed_out}), resize ({cols, rows}),
 * signal ({signal}) and error (a wire error). A port's WebSocket has no channels: its messages are raw bytes.
 */
export const CHANNELS = { stdin: 0, stdout: 1, stderr: 2, exit: 3, stdin_eof: 4, resize: 5, signal: 6, error: 7 } as const

/** The subprotocol of every WebSocket here; the server selects it when the client offers it. */
export const SOCKET_PROTOCOL = 'sandglass.v1'
const KEY_PREFIX = 'sandglass.key.'

/** Close code of a WebSocket that failed; the reason is `CODE: message`, cut to the 123 bytes that a close frame holds. */
export const SOCKET_FAILED = 4000

/** What a client offers as subprotocols. Browsers cannot set Authorization on a WebSocket, so the key travels as the second, in hex. */
export function socketProtocols(apiKey: string): string[] {
  const hex = [...new TextEncoder().encode(apiKey)].map(byte => byte.toString(16).padStart(2, '0')).join('')
  return [SOCKET_PROTOCOL, KEY_PREFIX + hex]
}

/** The key in a Sec-WebSocket-Protocol header, or undefined. */
export function keyFromProtocols(header: string): string | undefined {
  const offer = header.split(',').find(entry => entry.trim().startsWith(KEY_PREFIX))
  const pairs = offer
    ?.trim()
    .slice(KEY_PREFIX.length)
    .match(/^(?:[0-9a-f]{2})+$/)?.[0]
    .match(/../g)
  return pairs ? new TextDecoder().decode(Uint8Array.from(pairs, pair => Number.parseInt(pair, 16))) : undefined
}
