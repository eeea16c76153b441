// HTTP/1.1 connections that wait for their next request.
import { isFor } from './connection.ts'
import type { DialTarget } from './dial.ts'
import type { H1Connection } from './h1-connection.ts'

const IDLE_MS = 30_000
const MAX_PER_KEY = 16
const MAX_IN_ALL = 512

interface Idle {
  readonly connection: H1Connection
  readonly timer: NodeJS.Timeout
}

export class IdlePool {
  readonly #idle = new Map<string, Idle[]>()
  #count = 0

  /** The connection that was used last, for it is the least likely to have been closed. */
  take(key: string, target: DialTarget): H1Connection | null {
    const list = this.#idle.get(key)
    for (let at = (list?.length ?? 0) - 1; at >= 0; at -= 1) {
      const connection = list?.[at]?.connection
      if (connection === undefined || !isFor(connection, target)) continue
      this.remove(key, connection)
      if (connection.isUsable) return connection
      connection.destroy()
    }
    return null
  }

  /** `idleSeconds` is how long the server keeps the connection, if it has said so. */
  put(key: string, connection: H1Connection, idleSeconds: number | null): void {
    // A second less, because a request takes time to arrive.
    const idleMs = Math.min(IDLE_MS, idleSeconds === null ? IDLE_MS : (idleSeconds - 1) * 1000)
    const list = this.#idle.get(key) ?? []
    const isFull = list.length >= MAX_PER_KEY || this.#count >= MAX_IN_ALL
    if (!connection.isUsable || idleMs <= 0 || isFull) {
      connection.destroy()
      return
    }
    list.push({ connection, timer: setTimeout(() => connection.destroy(), idleMs) })
    this.#idle.set(key, list)
    this.#count += 1
  }

  remove(key: string, connection: H1Connection): void {
    const list = this.#idle.get(key)
    const at = list?.findIndex(idle => idle.connection === connection) ?? -1
    if (list === undefined || at === -1) return
    clearTimeout(list[at]?.timer)
    list.splice(at, 1)
    this.#count -= 1
    if (list.length === 0) this.#idle.delete(key)
  }
}
