// The conformance suite in a process of its own.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { RUNSC } from '../../../packages/daemon/src/backends/limitations.ts'
import { report } from './report.ts'
import { CLONE, NODE } from './run.ts'

/** What cgroups decide. */
export const LIMITS = [
  'pause stops every process and resume continues them',
  'a paused machine can be destroyed',
  'machines survive a killed daemon, and the next daemon recovers them',
  'stats report usage and limits',
  'busy loops use the whole cpu limit and no more',
  'a program that exceeds the memory limit is killed, and the machine keeps running',
  'a fork bomb stops at the process limit, and the machine keeps running',
  'memory and cpu limits of a running machine can be raised and lowered',
]
/** And what may differ with the version of the kernel and of the cgroups. */
export const MOST = [
  ...LIMITS,
  'stop keeps files and start brings them back',
  'destroy leaves nothing behind, and twice is the same as once',
  'an aborted start leaves nothing behind',
  'discard removes everything that a daemon killed during a start left behind',
  'the process limit of a running machine can be raised and lowered',
  'a full disk affects only its own session',
  'loopback is the only interface, with 127.0.0.53 on it',
  'root in a machine is not root on the host',
  'host files are not visible',
  'disks, paths and boot parameters of the host are not visible',
  'changes to a writable root are visible only in their own machine',
  'system calls that change mounts, namespaces, keys or the kernel are refused, even for root',
  'kernel settings and host details in /proc and /sys are masked or read-only',
]
/** Of these, what a kernel that is a program has. */
export const GVISOR = MOST.filter(title => !(title in RUNSC))

/** `prefix` is who runs it; no titles means all. */
export async function conform(
  suite: string,
  [runtime]: [string],
  prefix: readonly string[],
  titles: readonly string[],
): Promise<void> {
  const program = [
    NODE,
    `${CLONE}/guest/conform.mjs`,
    runtime,
    `${CLONE}/runner/bin/runner`,
    `${CLONE}/guest/starter.mjs`,
    ...titles,
  ]
  const [first = '', ...args] = [...prefix, ...program]
  const child = spawn(first, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = new Promise<number | null>(resolve => child.once('exit', resolve))
  const seen: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    const { title, error, ms }: { title: string; error: string | null; ms: number } = JSON.parse(line)
    seen.push(title)
    report({ suite, title, error, ms })
  }
  const code = await ended
  const missing = titles.filter(title => !seen.includes(title))
  if (code !== 0 || missing.length > 0) throw new Error(`ended with ${code}; not tried: ${missing.join('; ') || 'none'}`)
}
