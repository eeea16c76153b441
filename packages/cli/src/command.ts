// What a command is: data that help, completion and the reference are made from, and one function.
import type { SandboxClient } from '@sandglass/sdk'
import type { Settings } from './settings.ts'

export type Flag = {
  type: 'string' | 'boolean'
  short?: string
  multiple?: boolean
  /** What stands for the value in help. */
  value?: string
  about: string
}

export type Command = {
  summary: string
  /** The forms it takes, each without `sandglass VERB`. */
  usage: readonly string[]
  /** More about it, under the usage. */
  about?: string
  options: Readonly<Record<string, Flag>>
  /** Flags are not read here but handed on in `args`, in their order; only --help is looked for. */
  passesFlags?: boolean
  /** What an argument names, for completion. */
  completes?: 'sessions' | readonly string[]
  /** Gives the exit code; 0 when it gives none. */
  run(input: Input, context: Context): Promise<number | undefined>
}

export type Values = Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>

export type Input = {
  flags: Values
  /** What stands in front of `--`. */
  args: readonly string[]
  /** What follows `--`; undefined without one. */
  rest: readonly string[] | undefined
}

export type Environment = Readonly<Record<string, string | undefined>>

export type Context = {
  env: Environment
  /** --json: the contract's shape on stdout. */
  json: boolean
  /** --quiet: no talk on stderr but errors. */
  quiet: boolean
  /** The file that --config names. */
  configPath: string | undefined
  settings(): Promise<Settings>
  /** The daemon, which is started when none runs. `sockets` loads what terminals and ports need. */
  connect(options?: { sockets: boolean }): Promise<SandboxClient>
  /** To stdout: data. */
  print(text: string): void
  /** To stderr: talk. */
  say(text: string): void
}
