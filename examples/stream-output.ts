// Output as it comes, and a program with stdout and stderr apart.
import { connectLocal } from '@sandglass/sdk/node'

const client = connectLocal()

await using session = await client.createSession()

const stream = session.execStream('for i in 1 2 3; do echo "step $i"; sleep 0.1; done')
for await (const { chunk } of stream) process.stdout.write(chunk)
const { exitCode, durationMs } = await stream.result
console.log(`exit code ${exitCode}, ${durationMs >= 300 ? 'at least' : 'less than'} 300 ms`)

const { pid } = await session.processes.start(['sh', '-c', 'echo out; echo err >&2; exit 3'], { holdOutput: true })
const output = session.processes.output(pid)
for (let next = await output.next(); ; next = await output.next()) {
  if (next.done) {
    console.log(`ended with ${next.value?.exitCode}`)
    break
  }
  console.log(`${next.value.stream}: ${new TextDecoder().decode(next.value.data).trim()}`)
}
