// A private Docker engine for tests: prints where its socket is, and ends with its stdin. Arguments are dockerd's.
import { startDockerEngine } from '../bench/support/docker-engine.ts'

const engine = await startDockerEngine({
  say: line => process.stderr.write(`${line}\n`),
  signal: AbortSignal.timeout(24 * 3600_000),
  flags: process.argv.slice(2),
  ownProcesses: false,
})
process.stdout.write(`${JSON.stringify({ socket: engine.socket, folder: engine.folder, version: engine.version })}\n`)
process.stdin.resume()
process.stdin.once('end', () => engine[Symbol.asyncDispose]().then(() => process.exit(0)))
