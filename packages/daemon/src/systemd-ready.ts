// As a systemd service of Type=notify the daemon says when it listens, so that what is started after it finds it.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** `socket` is the NOTIFY_SOCKET of the environment. Node cannot send to such a socket itself. */
export async function tellSystemdReady(socket: string | undefined): Promise<void> {
  if (socket === undefined) return
  await promisify(execFile)('/usr/bin/systemd-notify', ['--ready'], { env: { NOTIFY_SOCKET: socket } })
}
