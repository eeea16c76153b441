// The WebSockets for processes, shells and ports, free of zod so that the SDK can carry it.

/**
 * Channels of the WebSockets for processes and shells. Each binary message is one channel byte and its payload:
 * bytes for stdin, stdout and stderr; JSON for exit ({exit_code, timed_out, limit_hit}), resize ({cols, rows}),
 * signal ({signal}) and error (a wire error). A port's WebSocket has no channels: its messages are raw bytes, and an empty one
 * from the client ends that direction.
 */
export const CHANNELS = { stdin: 0, stdout: 1, stderr: 2, exit: 3, stdin_eof: 4, resize: 5, signal: 6, error: 7 } as const

/** The subprotocol of every WebSocket here; the server selects it when the client offers it. */
export const SOCKET_PROTOCOL = 'sandglass'
/** Stands before the key where the key is offered as a subprotocol. */
export const SOCKET_KEY_PREFIX = 'sandglass.bearer.'

/** Close code of a WebSocket that failed after it was open; the reason is the error's code. */
export const SOCKET_FAILED = 1011

/** What a client offers as subprotocols. Browsers cannot set Authorization on a WebSocket, so the key travels as the second, in base64url. */
export function socketProtocols(apiKey: string): string[] {
  const base64 = btoa(String.fromCharCode(...new TextEncoder().encode(apiKey)))
  return [SOCKET_PROTOCOL, SOCKET_KEY_PREFIX + base64.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')]
}
