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
  about: `On oci and docker, a running session gets the new limits at once; on other backends it has to be stopped first. A stopped or failed
session gets them at its next start. Less memory than the session uses is refused. The size of /tmp and the open files of a process
change at the next start. The disk of a session cannot be resized.`,
}
