// The golden files of the launcher and of the guest. The Go tests decode and encode the same files.
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { UnpackResult } from '../../layers/unpack-result.ts'
import { GuestRequest, GuestStarted, GuestStats } from '../microvm/boot/control-port.ts'
import { GuestConfig } from '../microvm/boot/guest-config.ts'
import { BOOTED_LINE, ExitReason, exitReasonIn, WAITING_LINE } from '../microvm/boot/guest-console.ts'
import { CaptureJob, CaptureResult, OciJob, OciResult, SnapshotJob, VmJob, VmResult } from './schema.ts'

const DIR = fileURLToPath(new URL('../../../../../runner/testdata/launcher', import.meta.url))
const read = (name: string): unknown => JSON.parse(readFileSync(join(DIR, `${name}.json`), 'utf8'))

const Console = z.strictObject({ booted: z.string(), waiting: z.string(), exit: z.string() })
/** settings.json of the initramfs, which prepareBoot writes. */
const Settings = z.strictObject({
  masked: z.array(z.string()),
  read_only: z.array(z.string()),
  terminals: z.int(),
  seccomp: z.base64(),
})

const SCHEMAS: Readonly<Record<string, z.ZodType>> = {
  'capture-disk': CaptureJob,
  'capture-files': CaptureJob,
  'capture-host': CaptureJob,
  'capture-result-done': CaptureResult,
  'capture-result-refused': CaptureResult,
  'guest-config': GuestConfig,
  'guest-console': Console,
  'guest-exit': ExitReason,
  'guest-failed': GuestStarted,
  'guest-request-clock': GuestRequest,
  'guest-request-end': GuestRequest,
  'guest-request-stats': GuestRequest,
  'guest-settings': Settings,
  'guest-started': GuestStarted,
  'guest-stats': GuestStats,
  'oci-end': OciJob,
  'oci-find': OciJob,
  'oci-prepare': OciJob,
  'oci-prepare-nothing': OciJob,
  'oci-probe': OciJob,
  'oci-resize': OciJob,
  'oci-result-done': OciResult,
  'oci-result-failed': OciResult,
  'oci-result-found': OciResult,
  'oci-result-probed': OciResult,
  'oci-result-started': OciResult,
  'oci-start': OciJob,
  'oci-sweep': OciJob,
  'snapshot-job': SnapshotJob,
  'unpack-result-device': UnpackResult,
  'unpack-result-done': UnpackResult,
  'unpack-result-refused': UnpackResult,
  'vm-job': VmJob,
  'vm-job-least': VmJob,
  'vm-result-failed': VmResult,
  'vm-result-started': VmResult,
}

it('every golden file has a schema', () => {
  const names = readdirSync(DIR).map(file => basename(file, '.json'))
  expect(names.toSorted()).toEqual(Object.keys(SCHEMAS).toSorted())
})

describe.each(Object.entries(SCHEMAS))('the golden file %s', (name, schema) => {
  it('is parsed and encoded again as it is', () => {
    expect(JSON.parse(JSON.stringify(schema.parse(read(name))))).toEqual(read(name))
  })

  it('is refused with a field that is missing', () => {
    const document = read(name) as Record<string, unknown>
    const [first = ''] = Object.keys(document)
    expect(schema.safeParse({ ...document, [first]: undefined }).success).toBe(false)
  })
})

it.each(Object.entries(SCHEMAS).filter(([name]) => name !== 'guest-stats'))(
  '%s is refused with an unknown field',
  (name, schema) => {
    expect(schema.safeParse({ ...(read(name) as object), unknown: 1 }).success).toBe(false)
  },
)

it('statistics of a guest of a later version are accepted', () => {
  expect(GuestStats.safeParse({ ...(read('guest-stats') as object), unknown: 1 }).success).toBe(true)
})

describe('the console of a guest', () => {
  const { booted, waiting, exit } = Console.parse(read('guest-console'))

  it('has the lines that the daemon waits for', () => {
    expect([booted, waiting]).toEqual([BOOTED_LINE, WAITING_LINE])
  })

  it('has the exit reason as its last message', () => {
    const log = `sandglass: exit {"reason":"status","text":"an earlier one"}\n${exit}\n\nQEMU ended with status 0\n`
    expect(exitReasonIn(log)).toEqual(read('guest-exit'))
  })

  it.each(['', 'Kernel panic', 'sandglass: exit {"reason":"out_of', 'sandglass: exit {"reason":"other","text":""}'])(
    'has none in %j',
    log => {
      expect(exitReasonIn(log)).toBe(null)
    },
  )
})
