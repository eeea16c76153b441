// `session.processes`.
import type { SignalInput } from '@sandglass/contract/tables'
import { base64FromBytes, bytesFromBase64 } from '../transport/base64.ts'
import { toCamel } from '../transport/case.ts'
import { follow } from '../transport/resume-events.ts'
import { newIdempotencyKey, type Transport } from '../transport/transport.ts'
import type { Cancel, ProcessInfo, ProcessOptions, ProcessTableRow } from '../wire-types.ts'
import { type Attachment, attach, type Exit, type Output } from './attachment.ts'

/** Programs with their own stdin, stdout and stderr. They keep running when no client is attached. */
export class SessionProcesses {
  #transport: Transport
  #id: string

  constructor(transport: Transport, id: string) {
    this.#transport = transport
    this.#id = id
  }

  start(argv: string[], { signal, ...options }: ProcessOptions = {}): Promise<ProcessInfo> {
    const idempotencyKey = newIdempotencyKey()
    return this.#transport.json('startProcess', { params: { id: this.#id }, body: { argv, ...options }, idempotencyKey, signal })
  }

  /** Processes that were started through the API: those that run, and the last 256 that ended. */
  async list({ signal }: Cancel = {}): Promise<ProcessInfo[]> {
    return (await this.#transport.json('listProcesses', { params: { id: this.#id }, signal })).items
  }

  /** All processes of the session in the order of their start. The call does not extend the lease of the session. */
  async table({ signal }: Cancel = {}): Promise<ProcessTableRow[]> {
    return (await this.#transport.json('processTable', { params: { id: this.#id }, signal })).items
  }

  get(pid: number, { signal }: Cancel = {}): Promise<ProcessInfo> {
    return this.#transport.json('getProcess', { params: { id: this.#id, pid }, signal })
  }

  /** Recent output, then live output, with stdin, resize and signals. */
  attach(pid: number, { signal }: Cancel = {}): Promise<Attachment> {
    return attach(this.#transport, 'attachProcess', { params: { id: this.#id, pid }, signal })
  }

  /** Signals a process of the session. The default for one that was started through the API is its process group. */
  async signal(pid: number, signal: SignalInput, options: { group?: boolean } & Cancel = {}): Promise<void> {
    const { signal: cancel, ...rest } = options
    await this.#transport.json('signalProcess', { params: { id: this.#id, pid }, body: { signal, ...rest }, signal: cancel })
  }

  /** Writes to stdin of a process that was started with `stdin: true`; `close` closes stdin afterwards. */
  async stdin(pid: number, data: string | Uint8Array, options: { close?: boolean } & Cancel = {}): Promise<void> {
    const { signal, close } = options
    const content = typeof data === 'string' ? { text: data } : { contentBase64: base64FromBytes(data) }
    await this.#transport.json('writeStdin', { params: { id: this.#id, pid }, body: { ...content, close }, signal })
  }

  /** The kept output, then live output unless `follow` is false. Resumes after lost connections. Returns how the process ended. */
  async *output(
    pid: number,
    { follow: follows, ...options }: { lastEventId?: string; follow?: boolean } & Cancel = {},
  ): AsyncGenerator<Output, Exit | undefined, undefined> {
    const isLast = (event: { type: string }) => event.type === 'exit' || event.type === 'kept'
    const call = { params: { id: this.#id, pid }, query: { follow: follows }, ...options, isLast }
    for await (const event of follow(this.#transport, 'processOutput', call)) {
      const data: { data_base64?: string } = JSON.parse(event.data)
      if (event.type === 'exit') return toCamel(data) as Exit
      if (event.type !== 'stdout' && event.type !== 'stderr') continue
      yield { stream: event.type, data: bytesFromBase64(data.data_base64 ?? '') }
    }
    return undefined
  }
}
