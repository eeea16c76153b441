// Clients that stop reading: each is cut off when its time is up, and neither the command, nor the daemon, nor anybody else notices.
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { CHANNELS, SOCKET_PROTOCOL } from '@sandglass/contract'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { deadline } from './deadline.ts'
import { RealDaemon } from './real-daemon.ts'

const daemon = new RealDaemon(['--slow-reader-seconds', '2'])
/** Far more than all buffers between a program and its reader hold together. */
const MUCH = 128 * 1024 * 1024
/** A daemon that kept what nobody reads would grow by more. */
const TOO_MUCH = 0.75 * MUCH

beforeAll(() => daemon.start())
afterAll(() => daemon.remove())

/** Sends a request and does not read a byte of what comes back. `nothing` is what may be sent later without any effect. */
function unread(head: string, { body = '', nothing = Buffer.from('\r\n') } = {}): { socket: Socket; isCut: () => boolean } {
  const socket = connect(daemon.socket)
  socket.on('error', () => undefined)
  socket.pause()
  socket.write(`${head}\r\nhost: localhost\r\nauthorization: Bearer ${daemon.key}\r\n\r\n${body}`)
  onTestFinished(() => void socket.destroy())
  const isCut = () => {
    // A socket that is not read learns of its end by writing.
    if (!socket.destroyed) socket.write(nothing)
    return socket.destroyed
  }
  return { socket, isCut }
}

function post(path: string, body: object) {
  const text = JSON.stringify(body)
  return unread(`POST ${path} HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: ${text.length}`, { body: text })
}

function upgrade(path: string) {
  const key = Buffer.alloc(16).toString('base64')
  return unread(
    `GET ${path} HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${key}\r\nsec-websocket-protocol: ${SOCKET_PROTOCOL}`,
    { nothing: clientFrame(PONG, Buffer.alloc(0)) },
  )
}

const [BINARY, PONG] = [0x82, 0x8a]

/** The mask is all zero, so that the payload stays as it is. */
function clientFrame(head: number, payload: Buffer): Buffer<ArrayBuffer> {
  return Buffer.concat([Buffer.from([head, 0x80 | payload.length, 0, 0, 0, 0]), payload])
}

const keys = (text: string) => clientFrame(BINARY, Buffer.concat([Buffer.from([CHANNELS.stdin]), Buffer.from(text)]))

const residentBytes = () => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))?.[1]) * 1024

/** Waits until the reader is cut off, with the daemon's memory looked at and other sessions in use meanwhile. */
async function untilCut(isCut: () => boolean, other: string): Promise<void> {
  const before = residentBytes()
  let answers = 0
  await deadline('the reader is cut off', async () => {
    expect(residentBytes() - before).toBeLessThan(TOO_MUCH)
    expect(await daemon.exec(other, 'echo $((20 + 22))')).toMatchObject({ exit_code: 0, output: '42\n' })
    answers++
    return isCut()
  })
  expect(answers).toBeGreaterThan(1)
}

/** Prints much, then leaves a file, which it could not if it still waited for the reader. */
const flood = (mark: string) => `head -c ${MUCH} /dev/zero | tr '\\0' x; echo over > ${mark}`

const leftBehind = (id: string, mark: string) =>
  deadline('the command goes on to its end', async () => {
    const { output } = await daemon.exec(id, `cat ${mark} 2>/dev/null`, { shell: 'look' })
    return output === 'over\n'
  })

it('a client that stops reading an exec stream is cut off, and its command goes on with detach', async () => {
  const [{ id }, other] = await Promise.all([daemon.create(), daemon.create()])
  const reader = post(`/v1/sessions/${id}/exec/stream`, { cmd: flood('mark'), detach: true })
  await untilCut(reader.isCut, other.id)
  await leftBehind(id, 'mark')
  expect(await daemon.exec(id, 'echo still here')).toMatchObject({ output: 'still here\n' })
  expect(daemon.log).toContain('slow reader disconnected')
}, 60_000)

it('a client that stops reading a terminal is cut off, and what runs there goes on', async () => {
  const [{ id }, other] = await Promise.all([daemon.create(), daemon.create()])
  const terminal = upgrade(`/v1/sessions/${id}/shells/main/attach`)
  terminal.socket.write(keys(`${flood('mark')}\r`))
  await untilCut(terminal.isCut, other.id)
  await leftBehind(id, 'mark')
  const { items } = (await daemon.call('GET', `/v1/sessions/${id}/shells`)).json()
  expect(items.find((shell: { name: string }) => shell.name === 'main').attached).toBe(0)
}, 60_000)

it('a client that stops reading the output of a process is cut off, and the process goes on', async () => {
  const [{ id }, other] = await Promise.all([daemon.create(), daemon.create()])
  const argv = ['sh', '-c', flood('mark')]
  const { pid } = (await daemon.call('POST', `/v1/sessions/${id}/processes`, { argv, hold_output: true })).json()
  const reader = unread(`GET /v1/sessions/${id}/processes/${pid}/output HTTP/1.1`)
  await untilCut(reader.isCut, other.id)
  await leftBehind(id, 'mark')
}, 60_000)

it('a client that stops reading a file is cut off', async () => {
  const [{ id }, other] = await Promise.all([daemon.create(), daemon.create()])
  await daemon.exec(id, `head -c ${MUCH} /dev/zero > large`)
  await untilCut(unread(`GET /v1/sessions/${id}/files?path=large HTTP/1.1`).isCut, other.id)
}, 60_000)
