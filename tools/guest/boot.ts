// Boots the guest in QEMU without hardware support, which works on every host, and reads what it says on its serial line.
import { spawn } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { createInterface } from 'node:readline'
import type { SystemDisk } from './system-disk.ts'

/** One thing that was tried in the guest. */
export type Result = { suite: string; title: string; error: string | null; ms: number }

/** Lines of the guest's serial line that begin so are results; the rest is for whoever looks into the log. */
export const MARK = '@@ '

export type Guest = { system: SystemDisk; programs: string; log: string; timeoutMs: number }

/** Resolves when the guest has switched itself off. Nothing it writes is kept. */
export async function bootGuest({ system, programs, log, timeoutMs }: Guest, onResult: (result: Result) => void): Promise<void> {
  const child = spawn('qemu-system-x86_64', qemuArgs(system, programs), {
    stdio: ['ignore', 'pipe', 'pipe'],
    signal: AbortSignal.timeout(timeoutMs),
  })
  const file = createWriteStream(log)
  child.stderr.pipe(file, { end: false })
  createInterface({ input: child.stdout, crlfDelay: Number.POSITIVE_INFINITY }).on('line', line => {
    file.write(`${line}\n`)
    const at = line.indexOf(MARK)
    if (at >= 0) onResult(JSON.parse(line.slice(at + MARK.length)))
  })
  const ended = Promise.withResolvers<void>()
  child.once('error', error => {
    const why = error.name === 'AbortError' ? `the guest was not done after ${timeoutMs / 60_000} minutes` : error.message
    ended.reject(new Error(`${why}; see ${log}`, { cause: error }))
  })
  child.once('close', (code, signal) =>
    code === 0 ? ended.resolve() : ended.reject(new Error(`QEMU ended with ${code ?? signal}; see ${log}`)),
  )
  await ended.promise.finally(() => file.end())
}

/** A processor without AVX: QEMU 7.2 computes parts of it wrongly, and Node crashes. */
function qemuArgs({ disk, kernel }: SystemDisk, programs: string): string[] {
  const drive = (id: string, path: string) => [
    ...['-drive', `file=${path},if=none,id=${id},format=raw,snapshot=on,cache=unsafe`],
    ...['-device', `nvme,drive=${id},serial=${id}`],
  ]
  return [
    ...['-machine', 'q35', '-accel', 'tcg,thread=multi,tb-size=512', '-cpu', 'Westmere', '-smp', '2', '-m', '3072'],
    ...['-nodefaults', '-display', 'none', '-no-reboot', '-serial', 'stdio', '-kernel', kernel],
    ...['-append', 'root=/dev/nvme0n1 rw console=ttyS0 quiet panic=-1 mitigations=off systemd.show_status=false'],
    ...drive('system', disk),
    ...drive('programs', programs),
  ]
}
