// Limits hold against programs that try to exceed them, and the machine keeps running.
import { expect } from 'vitest'
import type { LimitEvents } from '../backend.ts'
import { type Cgroup, cgroupOfProcess, field, readCgroupFile } from '../cgroups/cgroup.ts'
import { hasOwnKernel, seenAs, sleepLength } from './host-view.ts'
import { boxOf, type Check, inBox, specOf, startsInTime, until } from './subject.ts'

const REPEAT_MS = 5000
const CPU_PERIOD_USEC = 100_000
/** Enough periods that one which was cut short does not matter. */
const THROTTLED_PERIODS = 10
/** On a loaded host the loops reach their limit only in some periods. */
const THROTTLED_MS = 20_000
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
  'stats report usage and limits': async (backend, subject) => {
    await inBox(backend, subject, { memoryMb: 256, pidsLimit: 64 }, async box => {
      await box.run('i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done')
      const stats = await box.machine.stats()
      expect(stats.memoryLimit).toBe(256 * 1024 * 1024)
      expect(stats.pidsLimit).toBe(64)
      expect(stats.cpuUsageUsec).toBeGreaterThan(1000)
      expect(stats.memoryBytes).toBeGreaterThan(100_000)
      expect(stats.pids).toBeGreaterThan(1)
      // A call may still find the connection of the call before. An engine takes a second for each answer.
      const end = Date.now() + REPEAT_MS
      for (let i = 0; i < 50 && Date.now() < end; i++) await box.machine.stats()
    })
  },

  'busy loops use the whole cpu limit and no more': async (backend, subject) => {
    // Small, so that a loaded host has that much for it. A machine with its own kernel needs more to run at all.
    const cpuCores = (await hasOwnKernel(backend, subject)) ? 0.5 : 0.2
    await inBox(backend, subject, { cpuCores }, async box => {
      const length = sleepLength()
      await box.run(`sleep ${length} & for i in 1 2 3 4; do while :; do :; done & done`)
      const cgroup = await cgroupOfProcess((await seenAs(backend, subject, box, length)).pid)
      const [usedBefore, began] = [(await box.machine.stats()).cpuUsageUsec, performance.now()]
      const throttledBefore = await throttledPeriods(cgroup)
      const throttled = async () => (await throttledPeriods(cgroup)) - throttledBefore
      const deadlineMs = THROTTLED_MS * (subject.patience ?? 1)
      await until('the loops reach the limit', async () => (await throttled()) >= THROTTLED_PERIODS, deadlineMs)
      // The kernel throttles only a group that has used all of its quota: a quota that is too small shows as too little usage per throttled
      // period. Half leaves room for periods that a virtual host skips.
      const leastUsec = (await throttled()) * CPU_PERIOD_USEC * cpuCores * 0.5
      const [used, elapsedMs] = [(await box.machine.stats()).cpuUsageUsec - usedBefore, performance.now() - began]
      expect(used).toBeGreaterThanOrEqual(leastUsec)
      // One period may have begun before.
      expect(used).toBeLessThan(elapsedMs * 1000 * cpuCores + CPU_PERIOD_USEC)
    })
  },

  'a program that exceeds the memory limit is killed, and the machine keeps running': async (backend, subject) => {
    await inBox(backend, subject, { memoryMb: 256 }, async box => {
      const { code } = await box.run('python3 -c "b = bytearray(400 << 20)"')
      expect(code).toBe(137)
      expect((await box.run('echo alive')).output).toBe('alive')
      expect((await box.machine.stats()).oomKills).toBeGreaterThan(0)
      expect((await box.machine.limitEvents()).oomKills).toBeGreaterThan(0)
      expect((await box.machine.stats()).memoryPeakBytes).toBeLessThanOrEqual(256 * 1024 * 1024)
    })
  },

  '/tmp is limited to half of the memory': async (backend, subject) => {
    await inBox(backend, subject, { memoryMb: 256 }, async box => {
      const { output } = await box.run('head -c 200M /dev/zero > /tmp/big; echo $?; df --output=size -m /tmp | tail -1')
      expect(output).toMatch(/No space left on device\n1\n\s*128$/)
    })
  },

  'a fork bomb stops at the process limit, and the machine keeps running': async (backend, subject) => {
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

  'memory and cpu limits of a running machine can be raised and lowered': async (backend, subject) => {
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

  'the process limit of a running machine can be raised and lowered': async (backend, subject) => {
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

  'a full disk affects only its own session': async (backend, subject) => {
    await inBox(backend, subject, { diskMb: 1024, memoryMb: 1536 }, async box => {
      const spec = specOf(subject)
      const other = boxOf(await backend.start(spec, startsInTime(subject)), spec, subject)
      try {
        // fallocate takes the space faster than writing does.
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

/** In how many periods the kernel stopped the processes because the quota was used up. The quota may be on the group above: a runtime makes its own. */
async function throttledPeriods(cgroup: Cgroup): Promise<number> {
  const counts = await Promise.all(['cpu.stat', '../cpu.stat'].map(file => readCgroupFile(cgroup, 'cpu', file)))
  return Math.max(...counts.map(text => field(text, 'nr_throttled') ?? 0))
}

/** The kernel may refuse one user of the sandbox before the whole machine, which only the number of processes shows. */
function hasReached({ pidRefusals, pids, pidsPeak }: LimitEvents, limit: number): boolean {
  return (pidRefusals ?? 0) > 0 || Math.max(pids ?? 0, pidsPeak ?? 0) >= limit
}
