// A port of a session on this machine. Only Node can listen, so its half of the SDK brings the function; the types are for everybody.
import type { ByteSocket } from '../transport/socket.ts'
import type { Cancel } from '../wire-types.ts'

export type ForwardOptions = {
  /** Port on this machine; a free one when absent. */
  localPort?: number
  /** Address to listen on; 127.0.0.1 when absent. Any other opens the sandbox to whoever reaches that address. */
  host?: string
  /** Told why a connection was not carried, like a port inside where nothing listens. The connection is closed in any case. */
  onError?: (error: unknown) => void
} & Cancel

export type Forward = AsyncDisposable & {
  readonly host: string
  readonly port: number
  /** Stops listening and ends the connections under way. */
  close(): Promise<void>
}

export type ForwardLike = (dial: (options: Cancel) => Promise<ByteSocket>, options: ForwardOptions) => Promise<Forward>
