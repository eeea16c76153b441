// What a command is: data that help, completion and the reference are made from, and one function.
import type { SessionEvent } from '@sandglass/contract/tables'
import type { SandboxClient } from '@sandglass/sdk'
import type { Settings } from './daemon/settings.ts'

export type Flag = {
  type: 'string' | 'boolean'
  /** One letter; a flag of that name has no long form. */
  short?: string
  multiple?: boolean
  /** What stands for the value in help. */
  value?: string
  /** The values there are: others are refused, and help and completion show these. */
  choices?: readonly string[]
  /** Values that completion offers, where there may be others. */
  suggested?: readonly string[] | undefined
  /** The value is the name of an image, for completion. */
  isImage?: boolean
  /** The value is a path on this machine, for completion. */
  isPath?: boolean
  /** On unless turned off, so help and completion show --no-NAME. */
  isOn?: boolean
  /** The first word of the command that it belongs to; with another it is not known. */
  only?: string
  /** Another spelling of this flag of the same command; only one of them may be given. */
  aliasOf?: string
  about: string
}

export type Command = {
  summary: string
  /** The forms it takes, each without `sandglass VERB`. */
  usage: readonly string[]
  /** More about it, under the usage. Paragraphs are wrapped; lines that begin with spaces stay as they are. */
  about?: string
  options: Readonly<Record<string, Flag>>
  /** What its arguments are, for completion: one session, any number of them, a session and processes of it, the ends of a copy, or one of these words. */
  completes?: 'session' | 'sessions' | 'processes' | 'endpoints' | readonly string[]
  /** What happens to the sessions: completion offers those that it can happen to. */
  event?: SessionEvent
  /** Of the words in `completes`, those that one image or any number of them follow. */
  imagesAfter?: Readonly<Record<string, 'one' | 'many'>>
  /** It changes sessions, images or secrets: always, or with one of these as its first word. Such a command tells of a configuration that the daemon has not read. */
  changes?: true | readonly string[]
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
  /** All of it as it was written. */
  argv: readonly string[]
}

export type Environment = Readonly<Record<string, string | undefined>>

export type Context = {
  env: Environment
  /** --json: the contract's shapes, on stdout for results and on stderr for errors. */
  json: boolean
  /** No talk on stderr but errors: --quiet, and --json, whose reader takes every line for JSON. */
  quiet: boolean
  /** The file that --config names. */
  configPath: string | undefined
  settings(): Promise<Settings>
  /** The daemon, which is started when none runs. */
  connect(): Promise<SandboxClient>
  /** To stdout: data. */
  print(text: string): void
  /** To stderr: talk. */
  say(text: string): void
  /** Prints a failure that does not end the command, and gives its exit code. */
  report(error: unknown): Promise<number>
}
