import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { specOf } from '../../conformance/subject.ts'
import { RUNNER_PATH } from '../../plain-child/plain-child.fixture.ts'
import { busyboxImage } from '../../rootfs/image.fixture.ts'
import { testAuthority } from '../../rootfs/trust/authority.fixture.ts'
import { ociDataDir, openTestOci } from '../oci.fixture.ts'

const dataDir = ociDataDir()
const soon = () => AbortSignal.timeout(20_000)

it('what was made for an old certificate authority is removed once no machine uses it', async () => {
  const [old, current] = [testAuthority('/CN=Old'), testAuthority('/CN=Current')]
  const open = () => openTestOci({ dataDir, runtime: 'auto', runnerPath: RUNNER_PATH })
  const image = await busyboxImage(dataDir)
  const host = { kind: 'host' as const }
  /** Number of host roots, and of overlay layers with a certificate authority. */
  const count = async () => {
    const [hosts, layers] = await Promise.all([join(dataDir, 'images'), join(dataDir, 'images/tops')].map(dir => readdir(dir)))
    return [hosts?.filter(name => name.startsWith('host-')).length, layers?.filter(name => name.includes('-ca-')).length]
  }

  const first = await open()
  for (const trust of [null, old, current]) for (const each of [image, host]) await first.prepare({ image: each, trust }, soon())
  expect(await count()).toEqual([3, 2])
  await first.pruneImages?.([image], new Set())
  expect(await count()).toEqual([3, 2])

  // The next daemon keeps all variants of the host's current state: it does not know the certificate authority yet.
  const next = await open()
  expect(await count()).toEqual([3, 2])
  const spec = specOf({ allowUnenforced: [] }, { image, trust: old })
  const machine = await next.start(spec, soon())
  await next.pruneImages?.([image], new Set(), current)
  expect(await count()).toEqual([2, 2])
  await machine.destroy()
  await next.pruneImages?.([image], new Set(), current)
  expect(await count()).toEqual([2, 1])
  await next.pruneImages?.([], new Set(), current)
  expect(await count()).toEqual([2, 0])
})
