// Plays the egress process for one machine: answers names and takes connections on the egress endpoint of its runner.
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { openLink, type RunnerLink } from '@sandglass/runner-link/link'
import type { RunnerStream } from '@sandglass/runner-link/stream'
import { expect } from 'vitest'
import type { MachineEgress } from '../backend.ts'
import type { Box } from './subject.ts'

/** A message of the control stream. */
export type ControlMessage = Readonly<Record<string, unknown>>

export interface EgressClient {
  readonly link: RunnerLink
  /** The next message of the runner. Throws if it has another type. */
  next(type: string): Promise<ControlMessage>
  send(message: { readonly type: string } & ControlMessage): Promise<void>
  /** The bytes of a program's connection. */
  take(connection: unknown): Promise<Duplex>
  close(): void
}

export function egressOf({ machine }: Pick<Box, 'machine'>): MachineEgress {
  if (machine.egress === null) throw new Error('the machine has no egress endpoint')
  return machine.egress
}

/** A link to the egress endpoint. `token` instead of the endpoint's own is for checks that it is refused. */
export function egressLink(box: Pick<Box, 'machine' | 'link'>, token = egressOf(box).token): RunnerLink {
  const { id, endpoint } = { id: box.machine.id, ...egressOf(box) }
  if (endpoint.kind === 'relay')
    return openLink({ id, token, mux: true, dial: async () => (await box.link.stream('egress')).raw() })
  return openLink({ id, token, mux: endpoint.kind === 'carrier', dial: () => dial(endpoint.path) })
}

/** The two directions of a connection end separately. */
async function dial(path: string): Promise<Duplex> {
  const socket = connect({ path, allowHalfOpen: true })
  await once(socket, 'connect')
  return socket
}

/** Opens the control stream and sends the first configuration. */
export async function egressClient(box: Pick<Box, 'machine' | 'link'>): Promise<EgressClient> {
  const link = egressLink(box)
  let control: RunnerStream
  try {
    control = await link.stream('control')
    await control.send({ type: 'config', generation: 1 })
  } catch (error) {
    link.close()
    throw error
  }
  return {
    link,
    next: async type => {
      const message = await control.next()
      if (message?.type !== type) throw new Error(`got ${JSON.stringify(message)} instead of ${type}`)
      return message
    },
    send: message => control.send(message),
    take: async connection => (await link.stream('take', { connection })).raw(),
    close: () => {
      control.close()
      link.close()
    },
  }
}

/**
 * Runs a program that sends `sent` to a name, allows the name, and answers the program. Resolves with what came out on the other side of each
 * direction. `beforeAnswer` is called when the connection is taken.
 */
export async function exchange(
  box: Pick<Box, 'run'>,
  client: EgressClient,
  [sent, reply]: readonly [string, string],
  beforeAnswer: () => Promise<void> = async () => undefined,
): Promise<{ received: string; printed: string }> {
  const serve = async () => {
    const connection = await takeNext(client)
    await beforeAnswer()
    return await answer(connection, reply)
  }
  const [{ output }, received] = await Promise.all([box.run(talkTo(sent)), serve()])
  return { received, printed: output }
}

const NAME = 'allowed.test'

/** Allows the next name that a program asks for, on port 80, and takes the connection to it. */
async function takeNext(client: EgressClient): Promise<Duplex> {
  const asked = await client.next('resolve')
  expect(asked.name).toBe(NAME)
  await client.send({ type: 'resolved', query: asked.query, generation: 1, answer: 'address', ports: [80] })
  const { connection, ...announced } = await client.next('connection')
  expect(announced).toEqual({ type: 'connection', name: NAME, port: 80, via: 'name' })
  return await client.take(connection)
}

/** A command line that connects to the name, sends `sent`, ends its direction, and prints what it receives. */
function talkTo(sent: string): string {
  const program = [
    'import socket',
    `s = socket.create_connection(("${NAME}", 80))`,
    `s.sendall(b"${sent}")`,
    's.shutdown(socket.SHUT_WR)',
    'print(s.makefile().read())',
  ]
  return `python3 -c '${program.join('\n')}'`
}

/** Reads what the program sent, up to the end of its direction, and answers. */
export async function answer(connection: Duplex, reply: string): Promise<string> {
  let sent = ''
  connection.setEncoding('utf8').on('data', (piece: string) => {
    sent += piece
  })
  await once(connection, 'end')
  connection.end(reply)
  return sent
}
