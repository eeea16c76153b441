// Makes sure that Docker's programs are on this machine, without starting the service that their package brings.
import { installed } from './apt.ts'

/** Absolute paths of the programs; installs Debian's docker.io where one is missing. */
export const installDocker = (say: (line: string) => void, signal: AbortSignal) =>
  installed(['docker', 'dockerd', 'containerd'], ['docker.io'], say, signal)
