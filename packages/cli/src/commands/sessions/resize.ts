import type { Command } from '../../command.ts'
import { usage } from '../../parser/parse.ts'
import { someSessionOptions, specFromFlags } from '../../parser/spec-from-flags.ts'
import { changeCommand } from './change-command.ts'

export const command: Command = {
  ...changeCommand(
    'Change the limits of a session',
    (session, flags) => {
      const { cpuCores, memoryMb, pidsLimit } = specFromFlags(flags)
      if (cpuCores === undefined && memoryMb === undefined && pidsLimit === undefined)
        throw usage('give at least one of --cpus, --memory and --pids-limit')
      return session.resize({ cpuCores, memoryMb, pidsLimit })
    },
    someSessionOptions('cpus', 'cpu-cores', 'memory', 'memory-mb', 'pids-limit'),
    ({ name, cpuCores, memoryMb, pidsLimit }) => `${name}  ${cpuCores} cpu  ${memoryMb} MiB  ${pidsLimit} processes`,
  ),
  usage: ['NAME... [--cpus N] [--memory SIZE] [--pids-limit N]'],
  about: `A session that runs on oci or docker has its new limits at once; one of another backend has to be stopped first. A session that is
stopped or failed takes them at its next start. Memory below what the session uses is refused. The size of /tmp and the number of open files
of a process follow at the next start; disk_mb cannot change.`,
}
