import { mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NetworkEntry } from '@sandglass/contract'
import { describe, expect, it, onTestFinished } from 'vitest'
import { oneLine } from './entry.ts'
import { openNetworkLog } from './network-log.ts'

function fixture(maxBytes = 1_000_000) {
  const folder = mkdtempSync(join(tmpdir(), 'sg-log-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const errors: unknown[] = []
  const open = () =>
    openNetworkLog(
      folder,
      () => maxBytes,
      error => errors.push(error),
    )
  const text = (name: string) => readFileSync(join(folder, name), 'utf8')
  const entries = (name: string) =>
    text(name)
      .trimEnd()
      .split('\n')
      .map(line => NetworkEntry.parse(JSON.parse(line)))
  return { folder, open, text, entries, errors }
}

const request = { type: 'request', method: 'GET', url: 'https://example.com/a', host: 'example.com', port: 443 } as const

describe('the network log', () => {
  it('has the same entries as text and as JSON lines', async () => {
    const { open, text, entries } = fixture()
    const log = open()
    log.add({ type: 'start' })
    log.add({ type: 'dns', host: 'evil.example', reason: 'refused' })
    log.add({ ...request, decision: 'allowed', status: 200, masked: 1 })
    log.add({ ...request, decision: 'blocked', status: 403 })
    log.add({ ...request, decision: 'error', reason: 'the server closed the connection' })
    log.add({ ...request, type: 'stripped', reason: 'authorization' })
    await log.close()
    const [start, ...lines] = text('network-sandbox.log').trimEnd().split('\n')
    expect(start).toMatch(/^=== TASK START \d{4}-.*Z ===$/)
    expect(lines).toEqual([
      'DNS A evil.example -> refused',
      'ALLOWED GET https://example.com/a -> 200 [masked: 1]',
      'BLOCKED GET https://example.com/a -> 403',
      'ERROR GET https://example.com/a -> the server closed the connection',
      "STRIPPED header 'authorization' from GET https://example.com/a (foreign credential blocked)",
    ])
    expect(entries('network-sandbox.jsonl').map(({ id }) => id)).toEqual([1, 2, 3, 4, 5, 6])
  })

  it('continues its numbers after the process was started again', async () => {
    const { open, entries } = fixture()
    for (const _ of [1, 2]) {
      const log = open()
      log.add({ ...request, decision: 'allowed', status: 200 })
      await log.close()
    }
    expect(entries('network-sandbox.jsonl').map(({ id }) => id)).toEqual([1, 2])
  })

  it('is rotated at its size, and one older file is kept', async () => {
    const { open, entries } = fixture(2000)
    for (let i = 0; i < 20; i++) {
      const log = open()
      log.add({ ...request, decision: 'allowed', status: 200 })
      await log.close()
    }
    const [old, current] = [entries('network-sandbox.jsonl.1'), entries('network-sandbox.jsonl')]
    expect(current.at(-1)?.id).toBe(20)
    expect(current[0]?.id).toBe((old.at(-1)?.id ?? 0) + 1)
    expect(old.length).toBeLessThan(10)
  })

  it('continues its numbers also when the process was started again right after a rotation', async () => {
    const { folder, open, entries } = fixture()
    const first = open()
    first.add({ ...request, decision: 'allowed', status: 200 })
    await first.close()
    renameSync(join(folder, 'network-sandbox.jsonl'), join(folder, 'network-sandbox.jsonl.1'))
    const second = open()
    second.add({ ...request, decision: 'allowed', status: 200 })
    await second.close()
    expect(entries('network-sandbox.jsonl').map(({ id }) => id)).toEqual([2])
  })

  it('that cannot be written says later how many entries are missing', async () => {
    const { folder, open, errors } = fixture()
    const log = open()
    rmSync(folder, { recursive: true })
    log.add({ ...request, decision: 'allowed', status: 200 })
    await log.close()
    expect(errors).toHaveLength(1)
  })

  it('cannot get a forged line from a URL', () => {
    expect(oneLine('https://a/\nALLOWED GET x\u001b[2J')).toBe('https://a/%0AALLOWED GET x%1B[2J')
  })
})
