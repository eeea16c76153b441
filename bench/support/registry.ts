// A registry on loopback with one image in it: Debian's docker-registry on a temporary folder.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { installed } from './apt.ts'
import { run } from './command.ts'
import { freePort } from './free-port.ts'
import { until } from './until.ts'

export interface Registry extends AsyncDisposable {
  readonly host: string
  readonly reference: string
  /** Of the image's layers, compressed and not. */
  readonly bytes: { readonly compressed: number; readonly unpacked: number }
}

const REPOSITORY = 'bench'
const DEADLINE_MS = 20_000

/** `layers` are lists of folders of this machine, one for each layer. */
export async function startRegistry(
  layers: readonly (readonly string[])[],
  say: (line: string) => void,
  signal: AbortSignal,
): Promise<Registry> {
  const { 'docker-registry': program } = await installed(['docker-registry'], ['docker-registry'], say, signal)
  const folder = await mkdtemp(join(tmpdir(), 'sg-registry-'))
  const host = `127.0.0.1:${await freePort()}`
  const settings = {
    version: 0.1,
    log: { level: 'error' },
    storage: { filesystem: { rootdirectory: `${folder}/data` } },
    http: { addr: host },
  }
  // JSON is YAML.
  await writeFile(join(folder, 'config.yml'), JSON.stringify(settings))
  const child = spawn(program, ['serve', join(folder, 'config.yml')], { stdio: 'ignore', detached: true })
  const dispose = async () => {
    if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL')) await once(child, 'exit')
    await rm(folder, { recursive: true, force: true })
  }
  try {
    await until('the registry answers', DEADLINE_MS, signal, () => isUp(host))
    say('making an image of folders of this machine')
    const bytes = await push(host, folder, layers, signal)
    return { host, reference: `${host}/${REPOSITORY}:1`, bytes, [Symbol.asyncDispose]: dispose }
  } catch (error) {
    await dispose()
    throw error
  }
}

const isUp = (host: string) =>
  fetch(`http://${host}/v2/`).then(
    reply => reply.ok,
    () => false,
  )

async function push(
  host: string,
  folder: string,
  layers: readonly (readonly string[])[],
  signal: AbortSignal,
): Promise<Registry['bytes']> {
  const pushed: { digest: string; size: number; diffId: string; unpacked: number }[] = []
  for (const paths of layers) {
    const file = join(folder, 'layer.tar')
    // Files of a machine in use may change while they are read: whatever was read is the layer.
    await run(['tar', '-C', '/', '--numeric-owner', '--ignore-failed-read', '--warning=none', '-cf', file, ...paths], signal)
    const tar = await readFile(file)
    const blob = gzipSync(tar, { level: 6 })
    pushed.push({ digest: await pushBlob(host, blob), size: blob.length, diffId: sha256(tar), unpacked: tar.length })
    await rm(file)
  }
  const architecture = process.arch === 'x64' ? 'amd64' : process.arch
  const config = Buffer.from(
    JSON.stringify({
      architecture,
      os: 'linux',
      config: {},
      rootfs: { type: 'layers', diff_ids: pushed.map(layer => layer.diffId) },
    }),
  )
  const type = (name: string) => `application/vnd.oci.image.${name}`
  const manifest = {
    schemaVersion: 2,
    mediaType: type('manifest.v1+json'),
    config: { mediaType: type('config.v1+json'), digest: await pushBlob(host, config), size: config.length },
    layers: pushed.map(({ digest, size }) => ({ mediaType: type('layer.v1.tar+gzip'), digest, size })),
  }
  await send('PUT', `http://${host}/v2/${REPOSITORY}/manifests/1`, Buffer.from(JSON.stringify(manifest)), manifest.mediaType)
  const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0)
  return { compressed: sum(pushed.map(layer => layer.size)), unpacked: sum(pushed.map(layer => layer.unpacked)) }
}

async function pushBlob(host: string, blob: Buffer): Promise<string> {
  const digest = sha256(blob)
  const begun = await send('POST', `http://${host}/v2/${REPOSITORY}/blobs/uploads/`)
  const url = new URL(begun.headers.get('location') ?? '')
  url.searchParams.set('digest', digest)
  await send('PUT', url.href, blob, 'application/octet-stream')
  return digest
}

async function send(method: string, url: string, body?: Buffer, type?: string): Promise<Response> {
  const content = body === undefined ? {} : { body: new Uint8Array(body), headers: { 'content-type': type ?? '' } }
  const reply = await fetch(url, { method, ...content })
  if (!reply.ok) throw new Error(`${method} ${url}: ${reply.status} ${await reply.text()}`)
  return reply
}

const sha256 = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
