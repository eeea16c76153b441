// The client of benchmarks of the network, on the host and in a sandbox: node client.mjs URL ROUNDS CONCURRENCY [PROXY_PORT]
// Prints the milliseconds of every request and of the whole as JSON.
import http from 'node:http'
import https from 'node:https'
import tls from 'node:tls'

const [url = '', rounds = '1', concurrency = '1', proxyPort] = process.argv.slice(2)
const { hostname, port } = new URL(url)
const agent = new https.Agent({ keepAlive: true, maxSockets: Number(concurrency) })
if (proxyPort !== undefined) agent.createConnection = throughProxy

/** A connection through an HTTP proxy on loopback. */
function throughProxy(options, done) {
  const connect = http.request({ host: '127.0.0.1', port: proxyPort, method: 'CONNECT', path: `${hostname}:${port || 443}` })
  connect.once('connect', (_, socket) => done(null, tls.connect({ ...options, socket, servername: hostname })))
  connect.once('error', done)
  connect.end()
}

function once() {
  return new Promise((resolve, reject) => {
    const begin = performance.now()
    const request = https.get(url, { agent }, response => {
      response.on('data', () => undefined)
      response.once('end', () => resolve(performance.now() - begin))
      if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`))
    })
    request.once('error', reject)
  })
}

async function measure(count) {
  const each = []
  let left = count
  const work = async () => {
    while (left-- > 0) each.push(await once())
  }
  const begin = performance.now()
  await Promise.all(Array.from({ length: Number(concurrency) }, work))
  return { whole: performance.now() - begin, each }
}

// The first requests open the connections, and compile the code of everybody on the way.
await measure(Math.ceil(Number(rounds) / 10))
console.log(JSON.stringify(await measure(Number(rounds))))
agent.destroy()
