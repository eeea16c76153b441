// Types of port forwards. The implementation is in node/, because browsers cannot listen on a port.
import type { ByteSocket } from '../transport/socket.ts'
import type { Cancel } from '../wire-types.ts'

export type ForwardOptions = {
  /** Port on this machine; a free one when absent. */
  localPort?: number
  /** Address to listen on; 127.0.0.1 when absent. SECURITY: any other address opens the port to everyone who can reach that address. */
  host?: string
  /** Called with the reason when a connection fails, such as a closed port in the sandbox. */
  onError?: (error: unknown) => void
} & Cancel

export type Forward = AsyncDisposable & {
  readonly host: string
  readonly port: number
  /** Stops listening and closes open connections. */
  close(): Promise<void>
}

export type ForwardLike = (dial: (options: Cancel) => Promise<ByteSocket>, options: ForwardOptions) => Promise<Forward>
