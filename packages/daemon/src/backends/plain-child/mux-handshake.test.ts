import type { Duplex } from 'node:stream'
import { crc32 } from 'node:zlib'
import { openLink } from '@sandglass/runner-link/link'
import { DATA, frameHeader, OPEN } from '@sandglass/runner-link/mux-frames'
import { expect, it, onTestFinished } from 'vitest'
import { deviceFixture } from './device.fixture.ts'

const ID = 'sess_abcdefghijklmnop'

async function fixture() {
  const device = await deviceFixture()
  const dialled: Duplex[] = []
  const dial = async () => {
    const duplex = await device.dial()
    dialled.push(duplex)
    return duplex
  }
  const open = () => {
    const link = openLink({ id: ID, dial, token: device.token, mux: true })
    onTestFinished(() => link.close())
    return link
  }
  return { ...device, dialled, open }
}

it('a new link finds the sandbox as the earlier link left it', async () => {
  const { open, dialled } = await fixture()
  const first = open()
  const { bootId } = await first.connect()
  await first.request('exec', { cmd: 'cd /tmp; export LEFT=behind' })
  const flood = await first.stream('exec', { cmd: 'yes', shell: 'flood', stream: true })
  await flood.next() // it flows, and is read no further
  dialled[0]?.destroy() // as if the daemon were killed: nothing is said to the runner

  const second = open()
  expect((await second.connect()).bootId).toBe(bootId)
  const { body } = await second.request('exec', { cmd: 'echo $LEFT $PWD' })
  expect(body.toString()).toBe('behind /tmp\r\n')
})

it('a link begins again on the same device after its carrier broke', async () => {
  const { open, dialled } = await fixture()
  const link = open()
  await link.connect()
  const lost = new Promise(resolve => link.onLost(resolve))
  dialled[0]?.destroy()
  await lost
  expect((await link.request('ping')).message.ok).toBe(true)
  expect(dialled.length).toBe(2)
})

it('noise and an incomplete frame of an earlier client are skipped', async () => {
  const { open, write } = await fixture()
  const first = open()
  await first.connect()
  write(Buffer.concat([frameHeader(OPEN, 1001, 0, 0), frameHeader(DATA, 1001, 60_000, crc32('other')), Buffer.from('half')]))
  const second = open()
  expect((await second.request('ping')).message.ok).toBe(true)
  write('[    1.234567] a line of the kernel\r\n')
  const third = open()
  expect((await third.request('ping')).message.ok).toBe(true)
})

it('a link that loses the device to another link is told, and takes it back at its next use', async () => {
  const { open } = await fixture()
  const [first, second] = [open(), open()]
  await first.connect()
  const lost = new Promise(resolve => first.onLost(resolve))
  await second.connect()
  await lost
  expect((await first.request('ping')).message.ok).toBe(true)
})

it('a lost hello is repeated', async () => {
  const { dial, token } = await deviceFixture()
  const lossy = async () => {
    const duplex = await dial()
    const write = duplex._write.bind(duplex)
    let lost = 0
    // The first hello is the filler and the line.
    duplex._write = (chunk, encoding, callback) => (lost++ < 2 ? callback() : write(chunk, encoding, callback))
    return duplex
  }
  const link = openLink({ id: ID, dial: lossy, token, mux: true })
  onTestFinished(() => link.close())
  expect((await link.request('ping')).message.ok).toBe(true)
})

it('a wrong token is refused on a device as elsewhere', async () => {
  const { dial } = await deviceFixture()
  const link = openLink({ id: ID, dial, token: 'wrong', mux: true })
  const refusal = { message: 'the runner refused the hello: UNAUTHORIZED' }
  await expect(link.connect()).rejects.toMatchObject({ code: 'RUNNER_LOST', cause: refusal })
})
