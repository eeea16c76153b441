// The egress endpoint of a machine, without an egress process: who may use it, what it carries, and how long it lives.
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { openLink } from '@sandglass/runner-link/link'
import { expect } from 'vitest'
import type { EgressEndpoint } from '../backend.ts'
import { egressClient, egressLink, egressOf, exchange } from './egress-client.fixture.ts'
import { traces } from './host-view.ts'
import { boxOf, type Check, inBox, said, specOf, starter, startsInTime } from './subject.ts'

const REFUSED = { cause: { message: 'the runner refused the hello: UNAUTHORIZED' } }
const BIND_DNS = `python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.53", 53)); print("bound")'`

export const EGRESS: Record<string, Check> = {
  'the egress endpoint accepts its own token and no other, and the runner does not accept that token': async (
    backend,
    subject,
  ) => {
    await inBox(backend, subject, { egress: true }, async box => {
      const { machine } = box
      const { token } = egressOf(box)
      const links = [
        egressLink(box, machine.token),
        egressLink(box, 'x'.repeat(43)),
        openLink({ id: machine.id, mux: machine.mux, token, dial: () => machine.dial() }),
      ]
      for (const link of links) {
        await expect(link.connect()).rejects.toMatchObject(REFUSED)
        link.close()
      }
    })
  },

  'the egress endpoint serves the requests of the egress process and nothing else': async (backend, subject) => {
    await inBox(backend, subject, { egress: true }, async box => {
      const link = egressLink(box)
      await link.connect()
      await expect(link.request('ping')).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
      await expect(link.request('exec', { cmd: 'true' })).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
      for (const type of ['file.get', 'dial', 'egress'])
        await expect(link.stream(type, { path: '/etc/passwd', port: 80 })).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
      const control = await link.stream('control')
      expect(control.reply).toMatchObject({ type: 'control', ok: true })
      control.close()
      link.close()
    })
  },

  'a program reaches an allowed name through the egress endpoint, with bytes in both directions': async (backend, subject) => {
    await inBox(backend, subject, { egress: true }, async box => {
      const client = await egressClient(box)
      const { received, printed } = await exchange(box, client, ['from inside', 'from outside'])
      expect([received, printed]).toEqual(['from inside', 'from outside'])
      client.close()
    })
  },

  'a machine with egress has a loopback interface and no other': async (backend, subject) => {
    await inBox(backend, subject, { egress: true }, async box => {
      expect((await box.run('cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d " "')).output).toBe('lo')
      expect((await box.run('cat /proc/net/route | tail -n +2')).output).toBe('')
      const connect = `python3 -c 'import socket; socket.create_connection(("1.1.1.1", 443))' 2>&1 | tail -1`
      expect((await box.run(connect)).output).toMatch(/Network is unreachable|No route to host/)
    })
  },

  'the next daemon finds the egress endpoint with its token': async (backend, subject) => {
    await inBox(backend, subject, { egress: true }, async box => {
      const found = (await (await subject.open()).recover()).find(({ id }) => id === box.machine.id)
      if (found === undefined) throw new Error('the machine was not found again')
      expect(found.egress).toEqual(box.machine.egress)
      box.link.close()
      const again = boxOf(found, box.spec, subject)
      const client = await egressClient(again)
      const { received, printed } = await exchange(again, client, ['one', 'two'])
      expect([received, printed]).toEqual(['one', 'two'])
      client.close()
      again.link.close()
    })
  },

  'a connection through the egress endpoint outlives the daemon': async (_, subject) => {
    const spec = specOf(subject, { egress: true })
    const daemon = starter(subject, spec)
    await said(daemon, 'started')
    const machine = (await (await subject.open()).recover()).find(({ id }) => id === spec.id)
    if (machine === undefined) throw new Error('the machine was not found')
    const box = boxOf(machine, spec, subject)
    try {
      const client = await egressClient(box)
      const { received, printed } = await exchange(box, client, ['before', 'after'], async () => {
        daemon.kill('SIGKILL')
        await once(daemon, 'exit')
      })
      expect([received, printed]).toEqual(['before', 'after'])
      client.close()
    } finally {
      daemon.kill('SIGKILL')
      box.link.close()
      await machine.destroy()
    }
  },

  'a machine without egress has no endpoint, and its runner listens on no address': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      expect(box.machine.egress).toBeNull()
      await expect(box.link.stream('egress')).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
      expect((await box.run(BIND_DNS)).output).toBe('bound')
    })
  },

  'stop and destroy remove the egress endpoint, and the next start has another token': async (backend, subject) => {
    await inBox(backend, subject, { egress: true }, async box => {
      const { token, endpoint } = egressOf(box)
      box.link.close()
      await box.machine.stop()
      expect(isThere(endpoint)).toBe(false)
      const again = await backend.start(box.spec, startsInTime(subject))
      expect(egressOf({ machine: again }).token).not.toBe(token)
      await again.destroy()
      expect(isThere(endpoint)).toBe(false)
      expect(traces(again.id)).toEqual([])
    })
  },

  'an aborted start with egress leaves nothing behind': async (backend, subject) => {
    let folder = ''
    await inBox(backend, subject, { egress: true }, async box => {
      const { endpoint } = egressOf(box)
      if (endpoint.kind !== 'relay') folder = dirname(endpoint.path)
    })
    for (const afterMs of [2, 5, 10, 20]) {
      const spec = specOf(subject, { egress: true })
      const abort = new AbortController()
      const started = backend.start(spec, abort.signal).then(
        machine => machine.destroy(),
        () => undefined, // the abort is the point
      )
      await delay(afterMs * (subject.patience ?? 1))
      abort.abort()
      await started
      expect(traces(spec.id)).toEqual([])
      expect(existsSync(join(folder, spec.id))).toBe(false)
    }
  },
}

const isThere = (endpoint: EgressEndpoint) => endpoint.kind !== 'relay' && existsSync(endpoint.path)
