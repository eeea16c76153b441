// Opens the configured addresses: one HTTP server each, all in front of one application.
import { chmodSync, unlinkSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import { connect, isIP } from 'node:net'
import { join } from 'node:path'
import { DATA_FILES, SandglassError } from '@sandglass/contract'
import { acquireLock, type Lock } from '../data-dir/lock.ts'
import { isMissing } from '../lib/missing-file.ts'
import type { Upgrades } from './streams/upgrade.ts'

export type Address =
  | { kind: 'unix'; path: string; isOurs: boolean }
  | { kind: 'tcp'; host: string; port: number; isLoopback: boolean }
export type Listeners = { addresses: string[]; servers: Server[]; locks: Lock[] }

/** SECURITY: without a configured api_key only loopback addresses and unix sockets are allowed. */
export function parseAddresses(listen: readonly string[], dataDir: string, hasConfiguredKey: boolean): Address[] {
  if (listen.length === 0) throw new SandglassError('CONFIG_INVALID', { source: 'listen', issue: 'names no address' })
  return listen.map(text => {
    const address = parseAddress(text, dataDir)
    if (address.kind === 'tcp' && !address.isLoopback && !hasConfiguredKey) {
      throw new SandglassError('CONFIG_INVALID', {
        source: 'listen',
        issue: `${text} is not a loopback address: set api_key first`,
      })
    }
    return address
  })
}

function parseAddress(text: string, dataDir: string): Address {
  if (text === 'unix') return { kind: 'unix', path: join(dataDir, DATA_FILES.socket), isOurs: true }
  if (text.startsWith('unix:')) return { kind: 'unix', path: text.slice(5), isOurs: false }
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:[\]]*)):(\d{1,5})$/.exec(text) ?? []
  const host = bracketed ?? plain
  if (host === undefined || Number(port) > 65_535)
    throw new SandglassError('CONFIG_INVALID', { source: 'listen', issue: `${text} is not host:port, unix or unix:/path` })
  return { kind: 'tcp', host: host || '0.0.0.0', port: Number(port), isLoopback: isLoopbackHost(host) }
}

const isLoopbackHost = (host: string) => host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))

export async function listen(addresses: readonly Address[], onRequest: RequestListener, upgrades: Upgrades): Promise<Listeners> {
  const opened: Listeners = { addresses: [], servers: [], locks: [] }
  try {
    for (const address of addresses) {
      const server = createServer(
        {
          headersTimeout: 10_000,
          requestTimeout: 0,
          keepAliveTimeout: 65_000,
          maxHeaderSize: 16_384,
          connectionsCheckingInterval: 5000,
        },
        onRequest,
      )
      opened.servers.push(server)
      upgrades.attach(server, onRequest)
      if (address.kind === 'unix') await listenUnix(server, address, opened)
      else await listenTcp(server, address, opened)
    }
    return opened
  } catch (error) {
    for (const server of opened.servers) server.close()
    for (const lock of opened.locks) lock.release()
    throw error
  }
}

/**
 * A killed daemon leaves its socket file. In the data folder the folder's lock proves that no daemon listens on it. Elsewhere a lock file
 * beside the socket excludes other daemons, and a trial connection detects other programs.
 */
async function listenUnix(server: Server, { path, isOurs }: Address & { kind: 'unix' }, opened: Listeners): Promise<void> {
  if (!isOurs) {
    opened.locks.push(acquireLock(`${path}.lock`, path))
    if (await answers(path))
      throw new SandglassError('CONFIG_INVALID', { source: 'listen', issue: `something else listens on ${path}` })
  }
  removeSocket(path)
  // SECURITY: the umask makes the socket accessible to its owner only, from its creation on.
  const mask = process.umask(0o177)
  try {
    await listening(server, { path })
  } finally {
    process.umask(mask)
  }
  chmodSync(path, 0o600)
  opened.addresses.push(`unix:${path}`)
}

function removeSocket(path: string): void {
  try {
    unlinkSync(path)
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}

function answers(path: string): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}

async function listenTcp(server: Server, { host, port }: Address & { kind: 'tcp' }, opened: Listeners): Promise<void> {
  await listening(server, { host, port })
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new Error('the server has no address')
  opened.addresses.push(`http://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`)
}

function listening(server: Server, where: { path: string } | { host: string; port: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', cause =>
      reject(new SandglassError('CONFIG_INVALID', { source: 'listen', issue: cause.message }, { cause })),
    )
    server.listen(where, () => resolve())
  })
}
