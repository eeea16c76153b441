// The server's side of a SOCKS5 handshake (RFC 1928): CONNECT to a name or an address, without authentication.
import type { Duplex } from 'node:stream'
import { inspectFirst } from './first-bytes.ts'

const VERSION = 5
const NO_AUTHENTICATION = 0
const NO_METHOD = 0xff
const CONNECT = 1
const ADDRESS = { ipv4: 1, name: 3, ipv6: 4 } as const
const REPLY = { succeeded: 0, refused: 2, unsupportedCommand: 7, unsupportedAddress: 8 } as const
const TIMEOUT_MS = 10_000
/** More than the longest message has. */
const MAX_BYTES = 600

export interface SocksTarget {
  /** As the program sent it: not checked yet. */
  readonly host: string
  readonly port: number
}

/** A message that was read, or a reason to refuse it, and how many bytes of the connection it has. */
type Parsed<T> = { readonly length: number; readonly value: T } | { readonly refusal: Buffer | null }

/** Null if the program speaks something else; the connection is closed then. The caller answers with `acceptSocks` or `refuseSocks`. */
export async function readSocksTarget(connection: Duplex): Promise<SocksTarget | null> {
  const greeting = await read(connection, parseGreeting)
  if (greeting === null) return null
  connection.write(Buffer.from([VERSION, NO_AUTHENTICATION]))
  return await read(connection, parseRequest)
}

export const acceptSocks = (connection: Duplex): void => void connection.write(reply(REPLY.succeeded))
export const refuseSocks = (connection: Duplex): void => close(connection, reply(REPLY.refused))

const reply = (code: number) => Buffer.from([VERSION, code, 0, ADDRESS.ipv4, 0, 0, 0, 0, 0, 0])

function close(connection: Duplex, last: Buffer | null): void {
  if (last === null) connection.destroy()
  else connection.end(last, () => connection.destroy())
}

async function read<T>(connection: Duplex, parse: (bytes: Buffer) => Parsed<T> | undefined): Promise<T | null> {
  const parsed = await inspectFirst(connection, { inspect: parse, maxBytes: MAX_BYTES, timeoutMs: TIMEOUT_MS })
  if (parsed === null || 'refusal' in parsed) {
    close(connection, parsed?.refusal ?? null)
    return null
  }
  connection.read(parsed.length)
  return parsed.value
}

/** Undefined while more bytes are needed, as below. */
function parseGreeting(bytes: Buffer): Parsed<true> | undefined {
  const [version, count] = bytes
  if (version !== VERSION) return { refusal: null }
  if (count === undefined || bytes.length < 2 + count) return undefined
  const methods = bytes.subarray(2, 2 + count)
  return methods.includes(NO_AUTHENTICATION) ? { length: 2 + count, value: true } : { refusal: Buffer.from([VERSION, NO_METHOD]) }
}

function parseRequest(bytes: Buffer): Parsed<SocksTarget> | undefined {
  const [version, command, , kind, nameLength] = bytes
  if (version !== VERSION) return { refusal: null }
  if (kind === undefined) return undefined
  if (command !== CONNECT) return { refusal: reply(REPLY.unsupportedCommand) }
  const hostEnd = { [ADDRESS.ipv4]: 8, [ADDRESS.ipv6]: 20, [ADDRESS.name]: 5 + (nameLength ?? 0) }[kind]
  if (hostEnd === undefined) return { refusal: reply(REPLY.unsupportedAddress) }
  if (nameLength === undefined || bytes.length < hostEnd + 2) return undefined
  return { length: hostEnd + 2, value: { host: hostOf(bytes.subarray(4, hostEnd), kind), port: bytes.readUInt16BE(hostEnd) } }
}

function hostOf(bytes: Buffer, kind: number): string {
  // SECURITY: latin1 keeps every byte, so that a NUL or a byte over 127 reaches the check of the name and is refused there.
  if (kind === ADDRESS.name) return bytes.subarray(1).toString('latin1')
  if (kind === ADDRESS.ipv4) return [...bytes].join('.')
  return Array.from({ length: 8 }, (_, i) => bytes.readUInt16BE(i * 2).toString(16)).join(':')
}
