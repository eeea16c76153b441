// The type of a command: data, from which help, completion and the reference are made, and one function.
import type { SessionEvent } from '@sandglass/contract/tables'
import type { SandboxClient } from '@sandglass/sdk'
import type { Settings } from './daemon/settings.ts'

/** What completion offers for an argument or for the value of a flag. */
export type Noun = 'session' | 'image' | 'policy' | 'secret' | 'approval' | 'task' | 'context' | 'agent' | 'file'

export type Flag = {
  type: 'string' | 'boolean'
  /** One letter. A flag whose name is this letter has no long form. */
  short?: string
  multiple?: boolean
  /** The placeholder of the value in help. */
  value?: string
  /** The allowed values, which help and completion show. */
  choices?: readonly string[]
  /** Values that completion offers; others are allowed. */
  suggested?: readonly string[] | undefined
  /** What the value names, for completion. */
  names?: Noun | undefined
  /** The value is a path on this machine, for completion. */
  isPath?: boolean
  /** The flag is on by default, so help and completion show --no-NAME. */
  isOn?: boolean
  /** The actions (first argument) that the flag belongs to; it is unknown with other actions. */
  only?: string | readonly string[]
  /** The flag of the same command that this one is another spelling of; only one of them may be given. */
  aliasOf?: string
  about: string
}

export type Command = {
  summary: string
  /** The forms of its usage, each without `sandglass COMMAND`. */
  usage: readonly string[]
  /** Text below the usage. Paragraphs are wrapped; lines that begin with a space are kept as they are. */
  about?: string
  options: Readonly<Record<string, Flag>>
  /** The flags of one of its forms, where the same letter means something else in another form; `options` has those of all for help. */
  optionsFor?(argv: readonly string[]): Readonly<Record<string, Flag>>
  /** The kind of its arguments, for completion: one session, several, a session and its processes, endpoints of a copy, or these actions. */
  completes?: 'session' | 'sessions' | 'processes' | 'endpoints' | readonly string[]
  /** The event that the command causes; completion offers the sessions whose state allows it. */
  event?: SessionEvent
  /** What the arguments after each action in `completes` name; `...` says that the last one may be repeated. */
  namesAfter?: Readonly<Record<string, readonly (Noun | `${Noun}...`)[]>>
  /** The command changes something, always or with these actions. It then notes if the daemon runs with an older configuration. */
  changes?: true | readonly string[]
  /** Returns the exit code; undefined is 0. */
  run(input: Input, context: Context): Promise<number | undefined>
}

export type Values = Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>

export type Input = {
  flags: Values
  /** The arguments before `--`. */
  args: readonly string[]
  /** The arguments after `--`; undefined without `--`. */
  rest: readonly string[] | undefined
  /** All words as they were written. */
  argv: readonly string[]
}

export type Environment = Readonly<Record<string, string | undefined>>

export type Context = {
  env: Environment
  /** --json: results on stdout and errors on stderr, in the shapes of the contract. */
  json: boolean
  /** Only errors on stderr: with --quiet, and with --json, whose reader expects every line to be JSON. */
  quiet: boolean
  /** The value of --config. */
  configPath: string | undefined
  settings(): Promise<Settings>
  /** A client of the daemon, which is started if none runs. */
  connect(): Promise<SandboxClient>
  /** Writes a result to stdout. */
  print(text: string): void
  /** Writes a message for people to stderr, unless `quiet`. */
  say(text: string): void
  /** Prints an error that does not end the command, and returns its exit code. */
  report(error: unknown): Promise<number>
}
