import { fileURLToPath } from 'node:url'

/** argv of the daemon, run by this same Node. */
export const daemonArgv = (...args: string[]): [string, ...string[]] => [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  fileURLToPath(import.meta.resolve('@sandglass/daemon/main')),
  ...args,
]
