// A session from start to end: state that stays, a file, an end.
// Run it with a daemon that listens on 127.0.0.1:8080 (`sandglass serve`), or name another in SANDGLASS_URL.
import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { SandboxClient } from '@sandglass/sdk'

const client = new SandboxClient({
  baseUrl: process.env.SANDGLASS_URL ?? 'http://127.0.0.1:8080',
  apiKey: process.env.SANDGLASS_API_KEY ?? (await readFile(`${homedir()}/.sandglass/data/api-key`, 'utf8')).trim(),
})

await using session = await client.createSession({ ttlSeconds: 600 })

await session.exec('cd /tmp && export NAME=sandglass')
const { output, exitCode, cwd } = await session.exec('echo "$NAME in $PWD"')
console.log({ output, exitCode, cwd })

await session.write('/workspace/sum.py', 'print(sum(range(101)))')
console.log((await session.exec('python3 /workspace/sum.py')).output.trim())

const content = await session.read('/workspace/sum.py')
console.log(`${content.length} bytes read back`)
