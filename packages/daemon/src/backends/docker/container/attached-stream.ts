// The stdin and stdout of a container's first process as one byte stream. The engine frames the output of the process: a byte that is 1 for
// stdout and 2 for stderr, three zeros, a length, and that many bytes. The input is not framed.
import { Duplex } from 'node:stream'
import type Docker from 'dockerode'

const HEADER_BYTES = 8
const STDOUT = 1

/** Closing the stream detaches from the container, and the process in it does not notice. `onStderr` receives the stderr of the process. */
export async function attach(container: Docker.Container, onStderr: (text: Buffer) => void): Promise<Duplex> {
  const attached = await container.attach({ stream: true, hijack: true, stdin: true, stdout: true, stderr: true })
  return unframed(attached as Duplex, onStderr)
}

function unframed(attached: Duplex, onStderr: (text: Buffer) => void): Duplex {
  let header = Buffer.alloc(0)
  let left = 0
  let isStdout = false

  const stream = new Duplex({
    allowHalfOpen: true,
    read: () => attached.resume(),
    write: (chunk: Buffer, _encoding, done) => {
      attached.write(chunk, done)
    },
    final: done => {
      attached.end(done)
    },
    destroy: (error, done) => {
      attached.destroy()
      done(error)
    },
  })

  function take(chunk: Buffer): void {
    let rest = chunk
    while (rest.length > 0) {
      if (left === 0) rest = readHeader(rest)
      const piece = rest.subarray(0, left)
      rest = rest.subarray(piece.length)
      left -= piece.length
      if (piece.length === 0) continue
      if (!isStdout) onStderr(piece)
      else if (!stream.push(piece)) attached.pause()
    }
  }

  function readHeader(chunk: Buffer): Buffer {
    const needed = HEADER_BYTES - header.length
    header = Buffer.concat([header, chunk.subarray(0, needed)])
    if (header.length === HEADER_BYTES) {
      isStdout = header[0] === STDOUT
      left = header.readUInt32BE(4)
      header = Buffer.alloc(0)
    }
    return chunk.subarray(Math.min(needed, chunk.length))
  }

  attached.on('data', take)
  attached.once('end', () => stream.push(null))
  attached.once('error', error => stream.destroy(error))
  attached.once('close', () => stream.destroy())
  return stream
}
