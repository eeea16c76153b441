// A runner on stdin and stdout, reached as one reaches a virtio port or an attached container: whoever dials is connected to the
// same two pipes, which outlive the dial and tell the runner nothing of it.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Duplex, type Readable, type Writable } from 'node:stream'
import { onTestFinished } from 'vitest'
import { RUNNER_PATH } from './plain-child.fixture.ts'

export async function deviceFixture() {
  const folder = await mkdtemp(join(tmpdir(), 'sg-'))
  const token = randomBytes(16).toString('hex')
  const roots = await Promise.all(['workspace', 'home'].map(name => mkdir(join(folder, name), { recursive: true })))
  const [workdir, home] = roots.map(String)
  await writeFile(join(folder, 'config.json'), JSON.stringify({ token, workdir, home, env: {}, file_roots: roots }))
  const child = spawn(RUNNER_PATH, ['--stdio', '--config-file', join(folder, 'config.json')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = new Promise<void>(resolve => child.once('exit', () => resolve()))
  const kill = () => {
    child.kill('SIGKILL')
    return ended
  }
  onTestFinished(async () => {
    await kill()
    await rm(folder, { recursive: true, force: true })
  })
  return { ...openDevice(child), token, kill }
}

function openDevice({ stdin, stdout }: ChildProcess) {
  if (stdin === null || stdout === null) throw new Error('no pipes')
  stdin.on('error', () => undefined) // the end of stdout tells
  /** What the runner sends goes to all who dialled, and is lost while nobody has. */
  const ends = new Set<DeviceEnd>()
  stdout.on('data', (chunk: Buffer) => {
    for (const end of ends) if (!end.push(chunk)) stdout.pause()
  })
  stdout.on('end', () => ends.forEach(end => void end.push(null)))
  const dial = async (): Promise<Duplex> => {
    const end = new DeviceEnd(stdin, stdout)
    if (stdout.readableEnded) end.destroy(new Error('the runner is gone'))
    ends.add(end)
    end.once('close', () => {
      ends.delete(end)
      stdout.resume()
    })
    return end
  }
  return { dial, write: (bytes: Uint8Array | string) => stdin.write(bytes) }
}

class DeviceEnd extends Duplex {
  readonly #stdin: Writable
  readonly #stdout: Readable

  constructor(stdin: Writable, stdout: Readable) {
    super({ allowHalfOpen: true })
    this.#stdin = stdin
    this.#stdout = stdout
  }

  override _read(): void {
    this.#stdout.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: (error?: Error | null) => void): void {
    if (this.#stdin.write(chunk)) callback()
    else this.#stdin.once('drain', () => callback())
  }
}
