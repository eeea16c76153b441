// A user's program, which the tests run on several versions of Node: it prints what came through a terminal, a process and ports.
import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { connectLocal } from '@sandglass/sdk/node'

/** Answers a connection with what it said, in capitals. */
const SERVER = `import socket
s = socket.create_server(("127.0.0.1", 0))
open("port", "w").write(str(s.getsockname()[1]))
while True:
    c = s.accept()[0]
    said = b""
    while piece := c.recv(65536): said += piece
    c.sendall(said.upper())
    c.close()`

const client = connectLocal()
// The very first call is a socket: it, too, finds or starts the daemon.
const [missing] = await Promise.all([
  client
    .session('nobody')
    .attachShell()
    .catch(error => error.code),
  client.health(),
])
console.log(missing)
const session = await client.createSession()
const exit = new Promise(resolve => session.on('exit', resolve))
try {
  console.log(await terminal(), await program())
  await session.write('server.py', SERVER)
  await session.exec('python3 server.py & until [ -s port ]; do sleep 0.01; done')
  const port = await session.readJson('port')
  console.log(await dialled(port), await forwarded(port))
} finally {
  await session.destroy()
}
const { status, reason } = await exit
console.log(status, reason)

async function terminal() {
  const shell = await session.attachShell('terminal')
  await shell.write('echo shell-$((20+22))\n')
  let shown = ''
  for await (const { data } of shell) {
    shown += new TextDecoder().decode(data)
    if (shown.includes('shell-42')) return 'shell-42'
  }
  return shown
}

async function program() {
  const { pid } = await session.processes.start(['cat'], { stdin: true, holdOutput: true })
  const cat = await session.processes.attach(pid)
  await cat.write('typed')
  await cat.end()
  let typed = ''
  for await (const { data } of cat) typed += new TextDecoder().decode(data)
  return `${typed} ${(await cat.exit).exitCode}`
}

async function dialled(port) {
  const socket = await session.dial(port)
  await socket.write(new TextEncoder().encode('dialled'))
  await socket.write(new Uint8Array())
  let answer = ''
  for await (const data of socket) answer += new TextDecoder().decode(data)
  return answer
}

async function forwarded(port) {
  const forward = await session.forward(port)
  const socket = connect({ port: forward.port, host: forward.host, allowHalfOpen: true })
  await once(socket, 'connect')
  socket.end('forwarded')
  const answer = await text(socket)
  await forward.close()
  return answer
}
