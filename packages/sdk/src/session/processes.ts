import type { SignalInput } from '@sandglass/contract/tables'
import { base64FromBytes, bytesFromBase64 } from '../transport/base64.ts'
import { toCamel } from '../transport/case.ts'
import { follow } from '../transport/follow.ts'
import { newIdempotencyKey, type Transport } from '../transport/transport.ts'
import type { Cancel, ProcessInfo, ProcessOptions, ProcessTableRow } from '../wire-types.ts'
import { type Attachment, attach, type Exit, type Output } from './attachment.ts'

/** Programs with their own stdin, stdout and stderr. They run on when nobody is attached. */
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

  /** Processes that were started here or with another client, and the last 256 that ended. */
  async list({ signal }: Cancel = {}): Promise<ProcessInfo[]> {
    return (await this.#transport.json('listProcesses', { params: { id: this.#id }, signal })).items
  }

  /** Every process of the session, whoever started it, in the order they were started. Looking does not keep the session alive. */
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

  /** To a process of the session, whoever started it; one that was started here is signalled with its group. */
  async signal(pid: number, signal: SignalInput, options: { group?: boolean } & Cancel = {}): Promise<void> {
    const { signal: cancel, ...rest } = options
    await this.#transport.json('signalProcess', { params: { id: this.#id, pid }, body: { signal, ...rest }, signal: cancel })
  }

  /** Writes to stdin of a process started with `stdin: true`; `close` ends its input. */
  async stdin(pid: number, data: string | Uint8Array, options: { close?: boolean } & Cancel = {}): Promise<void> {
    const { signal, close } = options
    const content = typeof data === 'string' ? { text: data } : { contentBase64: base64FromBytes(data) }
    await this.#transport.json('writeStdin', { params: { id: this.#id, pid }, body: { ...content, close }, signal })
  }

  /** Output from the oldest byte kept, and with `follow: false` no later output. Survives lost connections; returns how the process ended. */
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
