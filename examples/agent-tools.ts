// The three tools an agent needs, in the shape that tool-calling APIs take: a name, a description, a JSON schema, a function.
// The "model" here is a fixed list of calls, so that the file runs without one.
import { SandglassError } from '@sandglass/sdk'
import { connectLocal } from '@sandglass/sdk/node'

const client = connectLocal()

await using session = await client.createSession({ memoryMb: 1024, ttlSeconds: 1800 })

const text = { type: 'string' }
const tools = {
  exec: {
    description: 'Run a command line in the sandbox. cd, export and background jobs persist between calls.',
    input_schema: { type: 'object', properties: { cmd: text }, required: ['cmd'] },
    async run({ cmd = '' }) {
      const { exitCode, cwd, output, truncated } = await session.exec(cmd, { timeoutMs: 60_000 })
      return `exit=${exitCode}\ncwd=${cwd}${truncated ? '\n(middle of the output cut)' : ''}\n---\n${output}`
    },
  },
  write_file: {
    description: 'Write a text file in the sandbox.',
    input_schema: { type: 'object', properties: { path: text, content: text }, required: ['path', 'content'] },
    async run({ path = '', content = '' }) {
      await session.write(path, content)
      return `wrote ${path}`
    },
  },
  read_file: {
    description: 'Read a text file of the sandbox.',
    input_schema: { type: 'object', properties: { path: text }, required: ['path'] },
    run: async ({ path = '' }) => new TextDecoder().decode(await session.read(path, { maxBytes: 200_000 })),
  },
}

/** What the model asked for, done; a failure goes back to the model as text, so that it can try something else. */
async function callTool(name: keyof typeof tools, input: Record<string, string>): Promise<string> {
  try {
    return await tools[name].run(input)
  } catch (error) {
    if (error instanceof SandglassError) return `error: ${error.message}${error.hint ? ` (${error.hint})` : ''}`
    throw error
  }
}

const FIB = 'a, b = 0, 1\nfor _ in range(10):\n    print(a, end=" ")\n    a, b = b, a + b\n'
console.log(await callTool('write_file', { path: 'fib.py', content: FIB }))
console.log(await callTool('exec', { cmd: 'python3 fib.py > fib.txt; wc -w fib.txt' }))
console.log(await callTool('read_file', { path: 'fib.txt' }))
console.log(await callTool('read_file', { path: 'no-such-file' }))
