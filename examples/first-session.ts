// A session from start to end: state that stays, a file, an end.
// Run it with `node_modules/.bin/node examples/first-session.ts`; it starts a daemon when none runs.
import { connectLocal } from '@sandglass/sdk/node'

const client = connectLocal()

await using session = await client.createSession({ ttlSeconds: 600 })

await session.exec('cd /tmp && export NAME=sandglass')
const { output, exitCode, cwd } = await session.exec('echo "$NAME in $PWD"')
console.log({ output, exitCode, cwd })

await session.write('/workspace/sum.py', 'print(sum(range(101)))')
console.log((await session.exec('python3 /workspace/sum.py')).output.trim())

const content = await session.read('/workspace/sum.py')
console.log(`${content.length} bytes read back`)
