// Limits hold against programs that try to pass them, and the machine lives on.
import { expect } from 'vitest'
import type { LimitEvents } from '../backend.ts'
import { boxOf, type Check, inBox, specOf, startsInTime } from './subject.ts'

const AGAIN_MS = 5000
/** Holds 100 processes for a moment, or as many as it gets. */
const FORK_100 = [
  'import os, signal, time',
  'pids = []',
  'try:',
  '  for _ in range(100):',
  '    pid = os.fork()',
  '    if pid == 0: time.sleep(600)',
  '    pids.append(pid)',
  '  print("all")',
  'except OSError: print("refused")',
  'for pid in pids: os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)',
].join('\n')

export const LIMITS_HOLD: Record<string, Check> = {
  'statistics show what runs and the limits': async (backend, subject) => {
    await inBox(backend, subject, { memoryMb: 256, pidsLimit: 64 }, async box => {
      await box.run('i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done')
      const stats = await box.machine.stats()
      expect(stats.memoryLimit).toBe(256 * 1024 * 1024)
      expect(stats.pidsLimit).toBe(64)
      expect(stats.cpuUsageUsec).toBeGreaterThan(1000)
      expect(stats.memoryBytes).toBeGreaterThan(100_000)
      expect(stats.pids).toBeGreaterThan(1)
      // Who asks again at once may find the one before still leaving. An engine takes a second for each answer.
      const end = Date.now() + AGAIN_MS
      for (let i = 0; i < 50 && Date.now() < end; i++) await box.machine.stats()
    })
  },

  'busy loops get their share of the cpu and no more': async (backend, subject) => {
    await inBox(backend, subject, { cpuCores: 0.5 }, async box => {
      const [before, began] = [(await box.machine.stats()).cpuUsageUsec, performance.now()]
      await box.run('for i in 1 2 3 4; do timeout 1.5 sh -c "while :; do :; done" & done; wait')
      const [after, ended] = [(await box.machine.stats()).cpuUsageUsec, performance.now()]
      // Half a core, plus one period that may have begun before.
      expect(after - before).toBeLessThan((ended - began) * 1000 * 0.5 + 100_000)
    })
  },

  'memory past the limit ends the program and not the machine': async (backend, subject) => {
    await inBox(backend, subject, { memoryMb: 256 }, async box => {
      const { code } = await box.run('python3 -c "b = bytearray(400 << 20)"')
      expect(code).toBe(137)
      expect((await box.run('echo alive')).output).toBe('alive')
      expect((await box.machine.stats()).oomKills).toBeGreaterThan(0)
      expect((await box.machine.limitEvents()).oomKills).toBeGreaterThan(0)
      expect((await box.machine.stats()).memoryPeakBytes).toBeLessThanOrEqual(256 * 1024 * 1024)
    })
  },

  'files in /tmp stop at half the memory': async (backend, subject) => {
    await inBox(backend, subject, { memoryMb: 256 }, async box => {
      const { output } = await box.run('head -c 200M /dev/zero > /tmp/big; echo $?; df --output=size -m /tmp | tail -1')
      expect(output).toMatch(/No space left on device\n1\n\s*128$/)
    })
  },

  'a fork bomb stops at the limit, and the machine goes on': async (backend, subject) => {
    await inBox(backend, subject, { pidsLimit: 80 }, async box => {
      const bomb = [
        'import os, time',
        'n = 0',
        'try:',
        '  while True:',
        '    if os.fork() == 0: time.sleep(1000)',
        '    n += 1',
        'except OSError as e: print("stopped", e.errno, n <= 80)',
      ].join('\n')
      for (let round = 0; round < 5; round++) {
        const { output } = await box.run(`python3 -c '${bomb}'; true`)
        expect(output).toContain('stopped 11 True')
        expect(hasReached(await box.machine.limitEvents(), 80)).toBe(true)
        await box.run('sleep 0.1; pkill -f os.fork; true')
        expect((await box.asRoot('echo alive')).output).toBe('alive')
      }
    })
  },

  'memory and processor of a machine that runs can be raised and lowered': async (backend, subject) => {
    await inBox(backend, subject, { cpuCores: 0.5, memoryMb: 256, pidsLimit: 64 }, async box => {
      const hog = async () => (await box.run('python3 -c "b = bytearray(400 << 20)"')).code
      await box.machine.resize?.({ cpuCores: 1, memoryMb: 600, pidsLimit: 64 })
      expect(await box.machine.stats()).toMatchObject({ memoryLimit: 600 * 1024 * 1024, pidsLimit: 64 })
      expect(await hog()).toBe(0)
      await box.machine.resize?.({ cpuCores: 0.5, memoryMb: 256, pidsLimit: 64 })
      expect(await box.machine.stats()).toMatchObject({ memoryLimit: 256 * 1024 * 1024, pidsLimit: 64 })
      expect(await hog()).toBe(137)
    })
  },

  'processes of a machine that runs can be raised and lowered': async (backend, subject) => {
    await inBox(backend, subject, { cpuCores: 1, memoryMb: 256, pidsLimit: 64 }, async box => {
      const fork100 = async () => (await box.run(`python3 -c '${FORK_100}'`)).output
      for (const [pidsLimit, outcome] of [
        [160, 'all'],
        [64, 'refused'],
      ] as const) {
        await box.machine.resize?.({ cpuCores: 1, memoryMb: 256, pidsLimit })
        expect(await box.machine.stats()).toMatchObject({ pidsLimit })
        expect(await fork100()).toBe(outcome)
      }
    })
  },

  "a full disk is that session's own": async (backend, subject) => {
    await inBox(backend, subject, { diskMb: 1024, memoryMb: 1536 }, async box => {
      const spec = specOf(subject)
      const other = boxOf(await backend.start(spec, startsInTime(subject)), spec, subject)
      try {
        // fallocate takes the space without the time that writing it would.
        const { output } = await box.run(
          'fallocate -l 2G big; echo $?; fallocate -l 900M a; fallocate -l 900M b; echo $?; head -c 300M /dev/zero > c; echo $?',
        )
        expect(output.match(/No space left on device/g)?.length).toBeGreaterThanOrEqual(2)
        expect(output).toMatch(/1$/)
        expect((await other.run('head -c 50M /dev/zero > fine && wc -c < fine')).output).toBe('52428800')
        expect((await box.run('rm -f a b c big; echo again > f; cat f')).output).toBe('again')
      } finally {
        other.link.close()
        await other.machine.destroy()
      }
    })
  },
}

/** One user of the sandbox may be refused before the machine is, which only the number of its processes shows. */
function hasReached({ pidRefusals, pids, pidsPeak }: LimitEvents, limit: number): boolean {
  return (pidRefusals ?? 0) > 0 || Math.max(pids ?? 0, pidsPeak ?? 0) >= limit
}
