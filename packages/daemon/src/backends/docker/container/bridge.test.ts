// A container on the engine's bridge network.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, it, vi } from 'vitest'
import { inBox, type Subject } from '../../conformance/subject.ts'
import { openDocker } from '../backend.ts'
import { testEngine } from '../engine/engine.fixture.ts'

// A private engine starts slowly on a busy machine.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const BRIDGE = `sgdock${process.pid % 100_000}`
const HOST = '10.99.8.1'
const ip = (...args: string[]) => execFileSync('ip', args)
ip('link', 'add', BRIDGE, 'type', 'bridge')
ip('address', 'add', `${HOST}/24`, 'dev', BRIDGE)
ip('link', 'set', BRIDGE, 'up')
const engine = await testEngine('--bridge', BRIDGE)
const dataDir = mkdtempSync(join(tmpdir(), 'sandglass-docker-'))
const runnerPath = fileURLToPath(new URL('../../../../../../runner/bin/runner', import.meta.url))
const open = async () => openDocker({ dataDir, runnerPath, endpoint: engine.endpoint })
const subject: Subject = { open, starter: [], allowUnenforced: ['disk'], strongest: 'sandbox' }
afterAll(async () => {
  await engine.stop()
  ip('link', 'delete', BRIDGE)
  rmSync(dataDir, { recursive: true, force: true })
})

const DIAL = `python3 -c 'import socket; socket.create_connection(("${HOST}", 1), 5)' 2>&1 | tail -1`
const ports = () => readdirSync(`/sys/class/net/${BRIDGE}/brif`)

it('a session with network bridge is connected until it ends, and one without it has no network', async () => {
  await inBox(await open(), subject, { network: 'bridge' }, async box => {
    expect(ports()).toHaveLength(1)
    expect((await box.run(DIAL)).output).toContain('Connection refused')
  })
  expect(ports()).toEqual([])
  await inBox(await open(), subject, {}, async box => {
    expect((await box.run(DIAL)).output).toContain('Network is unreachable')
  })
})
