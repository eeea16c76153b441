// The WebSocket protocol of processes, shells and ports.

/**
 * Channels of the WebSockets for processes and shells. Each binary message is one channel byte and its payload:
 * bytes for stdin, stdout and stderr; JSON for exit ({exit_code, timed_out, limit_hit}), resize ({cols, rows}),
 * signal ({signal}) and error (a wire error). A port's WebSocket has no channels: its messages are raw bytes, and an empty one
 * from the client ends that direction.
 */
export const CHANNELS = { stdin: 0, stdout: 1, stderr: 2, exit: 3, stdin_eof: 4, resize: 5, signal: 6, error: 7 } as const

/** The subprotocol that the server selects. */
export const SOCKET_PROTOCOL = 'sandglass'
/** Prefix of the subprotocol that carries the key. */
export const SOCKET_KEY_PREFIX = 'sandglass.bearer.'

/** Close code of a WebSocket that failed after it was open; the reason is the error's code. */
export const SOCKET_FAILED = 1011

/** The subprotocols that a client offers. Browsers cannot set Authorization on a WebSocket, so the second one carries the key in base64url. */
export function socketProtocols(apiKey: string): string[] {
  const base64 = btoa(String.fromCharCode(...new TextEncoder().encode(apiKey)))
  return [SOCKET_PROTOCOL, SOCKET_KEY_PREFIX + base64.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')]
}
