// The life of a machine: start, use, pause, stop, destroy, and what remains after a crash.
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { openLink } from '@sandglass/runner-link/link'
import { expect } from 'vitest'
import type { Backend } from '../backend.ts'
import { descendants, hostProcesses, isStopped, traces } from './host-view.ts'
import { boxOf, type Check, inBox, said, specOf, starter, startsInTime, until } from './subject.ts'

export const LIFECYCLE: Record<string, Check> = {
  'a started machine runs commands as the user sandbox in /workspace': async (backend, subject) => {
    await inBox(backend, subject, { env: { GREETING: 'hello world' } }, async box => {
      expect(await box.machine.isRunning()).toBe(true)
      expect((await box.run('id -un; pwd; echo $GREETING; hostname')).output).toBe('sandbox\n/workspace\nhello world\nconforming')
    })
  },

  'a wrong token is refused': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      const { id, mux } = box.machine
      const link = openLink({ id, mux, dial: () => box.machine.dial(), token: 'x'.repeat(32) })
      await expect(link.connect()).rejects.toMatchObject({ cause: { message: 'the runner refused the hello: UNAUTHORIZED' } })
      link.close()
    })
  },

  'stop keeps files and start brings them back': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      await box.run('echo kept > f; mkdir d; ln -s f d/g; echo mine > ~/h; chmod 700 d')
      box.link.close()
      await box.machine.stop()
      await box.machine.stop()
      expect(await box.machine.isRunning()).toBe(false)
      expect(await backend.sessionIds()).toContain(box.machine.id)
      const again = boxOf(await backend.start(box.spec, startsInTime(subject)), box.spec, subject)
      expect((await again.run('cat f ~/h; readlink d/g; stat -c %U:%a d')).output).toBe('kept\nmine\nf\nsandbox:700')
      again.link.close()
    })
  },

  'fifty concurrent streams each get their own answer': async (backend, subject) => {
    await inBox(backend, subject, {}, async ({ link, run }) => {
      await run('for i in $(seq 50); do echo "answer $i" > f$i; done')
      const names = Array.from({ length: 50 }, (_, i) => `f${i + 1}`)
      const streams = await Promise.all(names.map(path => link.stream('file.get', { path })))
      const answers = await Promise.all(streams.map(async stream => await text(stream.replyBody())))
      for (const stream of streams) stream.close()
      expect(answers).toEqual(names.map(name => `answer ${name.slice(1)}\n`))
    })
  },

  'pause stops every process and resume continues them': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      await box.run('touch ticks; (while :; do echo >> ticks; sleep 0.01; done) & true')
      await box.machine.pause?.()
      const before = (await box.machine.stats()).cpuUsageUsec
      await delay(300)
      expect((await box.machine.stats()).cpuUsageUsec).toBe(before)
      await box.machine.resume?.()
      const ticks = async () => Number((await box.run('wc -l < ticks')).output)
      const count = await ticks()
      await until('the loop continues', async () => (await ticks()) > count)
    })
  },

  'a paused machine can be destroyed': async (backend, subject) => {
    const machine = await backend.start(specOf(subject), startsInTime(subject))
    await machine.pause?.()
    await machine.destroy()
    expect(await machine.isRunning()).toBe(false)
    expect(traces(machine.id)).toEqual([])
  },

  'destroy leaves nothing behind, and twice is the same as once': async (backend, subject) => {
    const spec = specOf(subject)
    const box = boxOf(await backend.start(spec, startsInTime(subject)), spec, subject)
    await box.run('for i in 1 2 3 4 5; do setsid sleep 1000 & done; (trap "" TERM HUP INT; sleep 1000) & true')
    box.link.close()
    await box.machine.destroy()
    expect(traces(spec.id)).toEqual([])
    expect(await backend.sessionIds()).not.toContain(spec.id)
    expect(await box.machine.isRunning()).toBe(false)
    await box.machine.destroy()
    await backend.discard(spec.id)
  },

  'a machine that exits by itself is reported as stopped, and its files are there after the next start': async (
    backend,
    subject,
  ) => {
    await inBox(backend, subject, {}, async box => {
      await box.run('echo kept > f')
      await box.link.request('shutdown', { grace_ms: 0 })
      await until('the machine is gone', async () => !(await box.machine.isRunning()))
      expect(await box.machine.exitReason()).toMatchObject({ limit: null })
      const again = boxOf(await backend.start(box.spec, startsInTime(subject)), box.spec, subject)
      expect((await again.run('cat f')).output).toBe('kept')
      again.link.close()
    })
  },

  'an aborted start leaves nothing behind': async (backend, subject) => {
    for (const afterMs of [0, 2, 5, 10, 20]) {
      const spec = specOf(subject)
      const abort = new AbortController()
      const started = backend.start(spec, abort.signal).then(
        machine => machine.destroy(),
        () => undefined,
      )
      await delay(afterMs)
      abort.abort()
      await started
      expect(await backend.sessionIds()).not.toContain(spec.id)
      expect(traces(spec.id)).toEqual([])
    }
  },

  'ten machines start concurrently': async (backend, subject) => {
    const machines = await Promise.all(Array.from({ length: 10 }, () => backend.start(specOf(subject), startsInTime(subject))))
    const answers = await Promise.all(
      machines.map(async machine => {
        const box = boxOf(machine, specOf(subject), subject)
        const { output } = await box.run('echo $((6*7))')
        box.link.close()
        return output
      }),
    )
    await Promise.all(machines.map(machine => machine.destroy()))
    expect(answers).toEqual(machines.map(() => '42'))
  },

  'machines survive a killed daemon, and the next daemon recovers them': async (backend, subject) => {
    const spec = specOf(subject)
    const child = starter(subject, spec)
    await said(child, 'started')
    child.kill('SIGKILL')
    await once(child, 'exit')
    const next = await subject.open()
    const machine = (await next.recover()).find(({ id }) => id === spec.id)
    if (machine === undefined) throw new Error('the machine was not found again')
    const box = boxOf(machine, spec, subject)
    expect((await box.run('echo alive')).output).toBe('alive')
    box.link.close()
    await machine.destroy()
    expect(traces(spec.id)).toEqual([])
    expect(await backend.sessionIds()).not.toContain(spec.id)
  },

  'discard removes everything that a daemon killed during a start left behind': async (_, subject) => {
    const { patience = 1 } = subject
    for (const afterMs of [0, 5, 10, 20, 50, 100, 200]) {
      const spec = specOf(subject)
      const child = starter(subject, spec)
      const started = said(child, 'started').catch(() => undefined) // it is killed first
      await said(child, 'starting')
      await Promise.race([delay(afterMs * patience), started])
      const orphans = await killDaemon(child)
      const next = await subject.open()
      await startIsOver(next, spec.id, orphans, OVER_MS * patience)
      for (const id of await next.sessionIds()) if (id === spec.id) await next.discard(id)
      expect(await next.sessionIds()).not.toContain(spec.id)
      await until('nothing with its id is left', () => traces(spec.id).length === 0)
    }
  },
}

/**
 * Kills a daemon and returns the pids of the processes that it had started. It is stopped first: a launcher that it starts between the look at its
 * children and the kill would be missed.
 */
async function killDaemon(child: ChildProcess): Promise<ReadonlySet<number>> {
  const pid = child.pid ?? 0
  child.kill('SIGSTOP')
  await until('the daemon is stopped', () => isStopped(pid))
  const orphans = new Set(descendants(pid))
  child.kill('SIGKILL')
  await once(child, 'exit')
  return orphans
}

const OVER_MS = 10_000

/**
 * A launcher that has its job goes on without its daemon for a moment, and neither its command line nor a file shows the id at first. The start is
 * over when the machine can be recovered, or when no process of the killed daemon is left.
 */
async function startIsOver(backend: Backend, id: string, orphans: ReadonlySet<number>, deadlineMs: number): Promise<void> {
  const isOver = async () => {
    if ((await backend.recover()).some(machine => machine.id === id)) return true
    return !hostProcesses().some(({ pid, argv }) => orphans.has(pid) || argv.includes(id))
  }
  await until('the start is over', isOver, deadlineMs)
}
