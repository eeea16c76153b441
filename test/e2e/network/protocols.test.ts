// Protocols beyond plain requests, on oci: a database behind a tcp rule, gRPC, TLS that passes through, a private upstream proxy.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { mariadbFixture } from '../../../packages/daemon/src/store/engines/mariadb.fixture.ts'
import { type NetworkFixture, startNetwork } from './daemon.ts'
import { API } from './upstream.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const GRPC = 'grpc.upstream.example'
const DATABASE = 'db.upstream.example'
let net: NetworkFixture
let grpcServer: ChildProcess
let databasePath = ''
let id: string

/** TCP connections to it end at the unix socket of the database. */
const database = createServer({ allowHalfOpen: true }, socket => {
  const to = connect({ path: databasePath, allowHalfOpen: true })
  socket.pipe(to).pipe(socket)
  for (const side of [socket, to]) side.on('error', () => side.destroy())
})

const GRPC_SERVER = `
import grpc, sys
from concurrent import futures
folder = sys.argv[1]
class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method == '/echo/Unary':
            return grpc.unary_unary_rpc_method_handler(lambda request, context: b'unary ' + request)
        if details.method == '/echo/Stream':
            return grpc.unary_stream_rpc_method_handler(lambda request, context: (b'%d ' % i + request for i in range(3)))
def fail(request, context): context.abort(grpc.StatusCode.NOT_FOUND, 'no such thing')
server = grpc.server(futures.ThreadPoolExecutor())
server.add_generic_rpc_handlers((Echo(),))
keys = [(open(folder + '/server.key', 'rb').read(), open(folder + '/server.pem', 'rb').read())]
print(server.add_secure_port('127.0.0.1:0', grpc.ssl_server_credentials(keys)), flush=True)
server.start()
sys.stdin.read()
`

const GRPC_CLIENT = `/usr/bin/python3 - <<'END'
import grpc, os
roots = open(os.environ['GRPC_DEFAULT_SSL_ROOTS_FILE_PATH'], 'rb').read()
with grpc.secure_channel('${GRPC}:443', grpc.ssl_channel_credentials(roots)) as channel:
    print(channel.unary_unary('/echo/Unary')(b'hello').decode())
    print([part.decode() for part in channel.unary_stream('/echo/Stream')(b'again')])
    try:
        channel.unary_unary('/echo/Missing')(b'')
    except grpc.RpcError as error:
        print(error.code())
END`

beforeAll(async () => {
  database.listen(0, '127.0.0.1')
  await once(database, 'listening')
  const { port } = database.address() as AddressInfo
  net = await startNetwork('oci', async upstream => {
    grpcServer = spawn('/usr/bin/python3', ['-c', GRPC_SERVER, upstream.folder], { stdio: ['pipe', 'pipe', 'inherit'] })
    const [line] = await once(grpcServer.stdout ?? grpcServer, 'data')
    return { [`${GRPC}:443`]: `127.0.0.1:${String(line).trim()}`, [`${DATABASE}:3306`]: `127.0.0.1:${port}` }
  })
  await net.policy('all', { domains: [GRPC, API], tcp: [`${DATABASE}:3306`] })
  id = (await net.daemon.create({ name: 'protocols', policies: ['all'], memory_mb: 1024, cpu_cores: 2 })).id
})
afterAll(async () => {
  await net?.[Symbol.asyncDispose]()
  grpcServer?.stdin?.end()
  database.close()
})

test('a MariaDB outside is reached by host and port, and answers queries', async () => {
  const location = await mariadbFixture()
  databasePath = location.socketPath ?? ''
  const query = `create table ${location.database}.t (v text); insert into ${location.database}.t values ('kept'); select v from ${location.database}.t`
  expect(await net.run(id, `mariadb -h ${DATABASE} -u root -N -e "${query}"`)).toContain('kept')
  await expect
    .poll(() => net.entries(id))
    .toContainEqual(expect.objectContaining({ type: 'connection', decision: 'allowed', host: DATABASE, port: 3306 }))
})

test('gRPC works: single replies, streams and status codes in trailers', async () => {
  const output = await net.run(id, GRPC_CLIENT)
  expect(output).toContain('unary hello')
  expect(output).toContain("['0 again', '1 again', '2 again']")
  expect(output).toContain('StatusCode.UNIMPLEMENTED')
})

test('TLS that passes through has the certificate of the server, and a request for another name is cut', async () => {
  await net.policy('all', { domains: [API], pass_through: [API] })
  const issuer = await net.run(id, `openssl s_client -connect ${API}:443 -servername ${API} </dev/null 2>/dev/null | grep issuer`)
  expect(issuer).toContain('Private test CA')
  const { exit_code } = await net.daemon.exec(id, `openssl s_client -connect ${API}:443 -servername example.com </dev/null`)
  expect(exit_code).not.toBe(0)
  await net.policy('all', { domains: [API] })
  const ours = await net.run(id, `openssl s_client -connect ${API}:443 -servername ${API} </dev/null 2>/dev/null | grep issuer`)
  expect(ours).toContain('Sandglass CA')
})

test('all traffic leaves through an upstream proxy, if one is configured', async () => {
  const asked: string[] = []
  const proxy = createHttpServer()
  proxy.on('connect', (request, socket) => {
    asked.push(`${request.url} ${request.headers['proxy-authorization']}`)
    const to = connect(net.upstream.tlsPort, '127.0.0.1', () => socket.write('HTTP/1.1 200 OK\r\n\r\n'))
    socket.pipe(to).pipe(socket)
    for (const side of [socket, to]) side.on('error', () => side.destroy())
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const { port } = proxy.address() as AddressInfo
  await using other = await startNetwork('oci', async () => null, {
    upstream_proxy: `http://user:pass@127.0.0.1:${port}`,
    ca_files: [join(net.upstream.folder, 'ca.pem')],
  })
  await other.policy('api', { domains: [API] })
  const { id: proxied } = await other.daemon.create({ name: 'proxied', policies: ['api'] })
  expect(await other.run(proxied, `curl -sS https://${API}/proxied`)).toContain('/proxied')
  expect(asked).toEqual([`${API}:443 Basic ${Buffer.from('user:pass').toString('base64')}`])
  proxy.close()
})
