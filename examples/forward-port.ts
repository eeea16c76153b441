// A web server in a sandbox, reached from this machine.
import { setTimeout as sleep } from 'node:timers/promises'
import { connectLocal } from '@sandglass/sdk/node'

await using session = await connectLocal().createSession({ ttlSeconds: 600 })

await session.write('/workspace/hello.txt', 'hello from inside\n')
await session.exec('python3 -m http.server 8000 >/dev/null 2>&1 &')
const signal = AbortSignal.timeout(30_000)
while (!(await session.ports()).some(({ port }) => port === 8000)) await sleep(100, undefined, { signal })

await using forward = await session.forward(8000)
const page = await fetch(`http://127.0.0.1:${forward.port}/hello.txt`)
process.stdout.write(await page.text())
