// For tests: a registry on this machine with small packages that the test makes, and counts of what was asked for.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import type { AgentName } from '@sandglass/contract'
import { type Header, pack } from 'tar-stream'
import { onTestFinished } from 'vitest'
import { AGENT_PACKAGES, platformPackage } from '../packages/table.ts'

export type Entry = Partial<Header> & { name: string; content?: string }

export type SmallRegistry = {
  readonly url: string
  /** Paths of all requests so far. */
  readonly asked: string[]
  /** Offers a version. `send` replaces how its tarball is sent. */
  publish(agent: AgentName, version: string, tarball: Buffer, send?: (response: ServerResponse) => void): void
  tagLatest(agent: AgentName, version: string): void
  close(): void
}

export async function smallRegistry(): Promise<SmallRegistry> {
  const replies = new Map<string, (response: ServerResponse) => void>()
  const asked: string[] = []
  const server = createServer(({ url = '' }, response) => {
    asked.push(url)
    const reply = replies.get(url)
    if (reply) reply(response)
    else response.writeHead(404).end()
  })
  const json = (value: object) => (response: ServerResponse) => void response.end(JSON.stringify(value))
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  onTestFinished(close)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    publish(agent, version, tarball, send = response => void response.end(tarball)) {
      const { name, suffix } = platformPackage(agent)
      const whole = `${version}${suffix}`
      const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`
      replies.set(`/${name.replace('/', '%2f')}/${whole}`, json({ version: whole, dist: { integrity } }))
      replies.set(`/${name}/-/${name.replace(/^.*\//, '')}-${whole}.tgz`, send)
    },
    tagLatest(agent, version) {
      const path = `/${AGENT_PACKAGES[agent].main.replace('/', '%2f')}/latest`
      replies.set(path, json({ version, dist: { integrity: 'sha512-' } }))
    },
    close,
  }
}

/** The package of an agent with a shell script as its program. */
export const agentTarball = (agent: AgentName, ...more: Entry[]): Promise<Buffer> =>
  tarballOf(
    { name: `package/${platformPackage(agent).program}`, mode: 0o755, content: '#!/bin/sh\necho hello\n' },
    { name: 'package/package.json', mode: 0o4666, content: '{}' },
    ...more,
  )

export async function tarballOf(...entries: Entry[]): Promise<Buffer> {
  const archive = pack()
  for (const { content, ...header } of entries) archive.entry(header, content ?? '')
  archive.finalize()
  return gzipSync(await buffer(archive))
}
