#!/usr/bin/env node
// The program of the egress process: `main.ts SOCKET [UID GID]`. The daemon starts it. It loads its code as the daemon's user, who can read it, and then
// becomes the user UID, who can read nothing.
import { chmod, rm } from 'node:fs/promises'
import { startEgress } from './egress.ts'

const [path = '', uid, gid] = process.argv.slice(2)

function becomeUser(): void {
  if (uid === undefined || gid === undefined) return
  if (process.setgroups === undefined || process.setgid === undefined || process.setuid === undefined)
    throw new Error('this system has no user ids')
  process.setgroups([])
  process.setgid(Number(gid))
  process.setuid(Number(uid))
}

/** A sandbox that causes errors must not fill the disk. */
const REPORTS_PER_MINUTE = 100
const reports = { minute: 0, count: 0 }

function report(error: unknown, what: string): void {
  const minute = Math.floor(Date.now() / 60_000)
  if (minute !== reports.minute) Object.assign(reports, { minute, count: 0 })
  reports.count += 1
  if (reports.count > REPORTS_PER_MINUTE) return
  // SECURITY: a message of an error names hosts and system calls; a stack or a request could hold a secret.
  const message = error instanceof Error ? error.message : String(error)
  process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), what, message })}\n`)
}

process.title = 'sandglass-egress'
process.umask(0o077)
// A defect in one exchange must not end the others.
process.on('uncaughtException', error => report(error, 'uncaught error'))
process.on('unhandledRejection', error => report(error, 'unhandled rejection'))
becomeUser()
await rm(path, { force: true })
const egress = await startEgress(path, () => void stop(), report)
await chmod(path, 0o600)
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void stop())

async function stop(): Promise<void> {
  await egress.close()
  await rm(path, { force: true })
  process.exit(0)
}
