import { changeCommand } from '../change-command.ts'
import type { Command } from '../command.ts'
import { usage } from '../parse.ts'
import { SESSION_OPTIONS, specFromFlags } from '../spec-from-flags.ts'

const LIMITS = ['cpus', 'cpu-cores', 'memory', 'memory-mb', 'pids-limit']

export const command: Command = {
  ...changeCommand(
    'Change the limits of a session',
    (session, flags) => {
      const { cpuCores, memoryMb, pidsLimit } = specFromFlags(flags)
      if (cpuCores === undefined && memoryMb === undefined && pidsLimit === undefined)
        throw usage('give at least one of --cpus, --memory and --pids-limit')
      return session.resize({ cpuCores, memoryMb, pidsLimit })
    },
    Object.fromEntries(Object.entries(SESSION_OPTIONS).filter(([name]) => LIMITS.includes(name))),
    ({ name, cpuCores, memoryMb, pidsLimit }) => `${name}  ${cpuCores} cpu  ${memoryMb} MiB  ${pidsLimit} processes`,
  ),
  usage: ['NAME... [--cpus N] [--memory SIZE] [--pids-limit N]'],
  about: `A session that runs on oci or docker has its new limits at once; one of another backend has to be stopped first. A session that is
stopped or failed takes them at its next start. Memory below what the session uses is refused. The size of /tmp and the number of open files
of a process follow at the next start; disk_mb cannot change.`,
}
