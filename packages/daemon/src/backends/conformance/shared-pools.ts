// Host-wide resource pools: a machine that takes as much as it can leaves enough for others.
import { expect } from 'vitest'
import { openFilePool } from '../isolation/open-files.ts'
import { hasOwnKernel } from './host-view.ts'
import { type Box, type Check, inBox } from './subject.ts'

const OPEN_MS = 25_000

/** Takes up to `most` resources as each of several users, prints how many it got, and keeps them until it is killed. */
const TAKE = [
  'import ctypes, os, sys, time',
  'what, most, users = sys.argv[1], int(sys.argv[2]), [int(u) for u in sys.argv[3:]]',
  'libc = ctypes.CDLL(None, use_errno=True)',
  'kept = []',
  'def terminal(): kept.append(os.openpty())',
  'def watch():',
  '  if libc.inotify_init() < 0: raise OSError',
  'def timer():',
  '  if libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())) < 0: raise OSError',
  'take = {"terminals": terminal, "watches": watch, "timers": timer}[what]',
  'def all():',
  '  count = 0',
  '  try:',
  '    while count < most: take(); count += 1',
  '  except OSError: pass',
  '  return count',
  'total = 0',
  'for user in users or [os.getuid()]:',
  '  reader, writer = os.pipe()',
  '  if os.fork() == 0:',
  '    if users: os.setgid(user); os.setuid(user)',
  '    os.write(writer, str(all()).encode() + b"\\n")',
  '    time.sleep(600)',
  '  total += int(os.read(reader, 100))',
  'print(total, flush=True)',
].join('\n')

/** Opens as many files as it can in each of several processes, prints how many it got, and keeps them until it is killed. */
const OPEN = [
  'import os, sys, time',
  'total = 0',
  'for _ in range(int(sys.argv[1])):',
  '  reader, writer = os.pipe()',
  '  if os.fork() == 0:',
  '    count = 0',
  '    try:',
  '      while count < int(sys.argv[2]): os.open("/dev/null", os.O_RDONLY); count += 1',
  '    except OSError: pass',
  '    os.write(writer, str(count).encode())',
  '    time.sleep(600)',
  '  os.close(writer)',
  '  total += int(os.read(reader, 100))',
  '  os.close(reader)',
  'print(total, flush=True)',
].join('\n')

export const SHARED_POOLS: Record<string, Check> = {
  'a machine that opens as many files as it can leaves enough for others': async (backend, subject) => {
    // A machine with its own kernel has its own pool.
    const isShared = !(await hasOwnKernel(backend, subject))
    const openFiles = async (box: Box, processes: number, most: number) =>
      Number((await box.run(`python3 -c '${OPEN}' ${processes} ${most}`, OPEN_MS)).output)
    await inBox(backend, subject, { pidsLimit: 64, memoryMb: 1024 }, async hog => {
      const taken = await openFiles(hog, isShared ? 50 : 1, 100_000)
      if (isShared) expect(taken).toBeLessThanOrEqual(Math.max(openFilePool().max / 4, 64 * 4096))
      await inBox(backend, subject, {}, async other => expect(await openFiles(other, 1, 1000)).toBe(1000))
    })
  },

  'a machine that opens as many terminals as it can leaves enough for others': async (backend, subject) => {
    await inBox(backend, subject, {}, async hog => {
      const taken = await take(hog, 'terminals', 10_000)
      if (!(await hasOwnKernel(backend, subject))) expect(taken).toBeLessThanOrEqual(256)
      await inBox(backend, subject, {}, async other => expect(await take(other, 'terminals', 100)).toBe(100))
    })
  },

  'a machine that creates as many timers as it can leaves enough for others': async (backend, subject) => {
    await inBox(backend, subject, {}, async hog => {
      const taken = await take(hog, 'timers', 100_000, [0, 1, 2, 3, 4, 5, 6, 1000])
      if (!(await hasOwnKernel(backend, subject))) expect(taken).toBeLessThanOrEqual(4096)
      await inBox(backend, subject, {}, async other => expect(await take(other, 'timers', 500)).toBe(500))
    })
  },

  'a machine that creates as many inotify instances as it can leaves enough for others': async (backend, subject) => {
    await inBox(backend, subject, {}, async hog => {
      await take(hog, 'watches', 100_000, [0, 1, 2, 1000])
      await inBox(backend, subject, {}, async other => expect(await take(other, 'watches', 100)).toBe(100))
    })
  },

  'host-wide queues of asynchronous I/O and messages are refused, even for root': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      const [setup, open] = process.arch === 'arm64' ? [0, 180] : [206, 240]
      const program = [
        'import ctypes, resource',
        'libc = ctypes.CDLL(None, use_errno=True)',
        `for call in [(${setup}, 1000, ctypes.byref(ctypes.c_ulong(0))), (${open}, b"queue", 0o102, 0o600, 0)]:`,
        '  print(libc.syscall(*call), ctypes.get_errno() in (1, 38))',
        'print(resource.getrlimit(12)[1])',
      ].join('\n')
      expect((await box.asRoot(`python3 -c '${program}'`)).output).toBe('-1 True\n-1 True\n0')
    })
  },
}

async function take(box: Box, what: string, most: number, users: readonly number[] = []): Promise<number> {
  const command = `python3 -c '${TAKE}' ${what} ${most} ${users.join(' ')}`
  return Number((await (users.length > 0 ? box.asRoot(command) : box.run(command))).output)
}
