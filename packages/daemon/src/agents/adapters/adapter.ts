// The interface of an adapter: how one coding agent is started, how its output is parsed, and how a run is concluded.
import type { AgentName, Outcome, TaskEvent, TaskReason, Usage } from '@sandglass/contract'

export interface AgentAdapter {
  readonly agent: AgentName
  /** What starts the agent for one prompt, or interactively. Pure. */
  launch(run: AgentRun): AgentCommand
  /** Reads the agent's stdout line by line. One parser per run. */
  parser(run: ParsedRun): AgentParser
}

export type AgentRun = {
  /** Absolute path of the native program in the sandbox. */
  program: string
  /** Home of the user that the agent runs as. */
  home: string
  /** Folder that the agent works in. */
  cwd: string
  /** The agent's own screen on a terminal, without a prompt. */
  isInteractive: boolean
  model: string | null
  /** The agent's own id of the conversation that goes on. */
  resume: string | null
  maxTurns: number | null
  maxCostUsd: number | null
  /** Gateway in place of the model's own API. */
  baseUrl: string | null
  trustRepoConfig: boolean
  allowWebTools: boolean
  mcp: Readonly<Record<string, ResolvedMcp>>
  /** Variable in which the session has the surrogate of the key. */
  credentialEnv: string | null
  /** The surrogate itself: the screen asks about a key that its configuration does not list. */
  surrogate?: string
  /** What the resumed conversation has used before this run: codex reports only the whole. Null for a new conversation, or if unknown. */
  usageBefore: Usage | null
}

/** What a parser has to know of the run. */
export type ParsedRun = Pick<AgentRun, 'model' | 'credentialEnv' | 'baseUrl' | 'maxCostUsd' | 'usageBefore'>

/**
 * `bearerEnv` names the variable with the surrogate that is sent as bearer token. `inherit` names variables of the session that a command
 * gets: claude and opencode pass all of them on, codex only these.
 */
export type ResolvedMcp =
  | { url: string; bearerEnv: string | null }
  | { command: string[]; env: Record<string, string>; inherit?: readonly string[] }

export type AgentCommand = {
  /** Without the prompt, which goes to stdin and is followed by EOF. */
  argv: string[]
  env: Record<string, string>
  /** Written before the start, replacing those of an earlier run. Their paths are absolute and below home. */
  files: AgentFile[]
}
export type AgentFile = { path: string; text: string; mode: string }

export interface AgentParser {
  /** Events of one line, at least one. A line that is not understood gives one event of type other. Never throws. */
  line(text: string, truncated: boolean): ParsedEvent[]
  /** Usage, cost and turns so far. The daemon stops an agent that does not enforce its budget itself. */
  soFar(): Spent
  /** The outcome of the run. */
  conclude(end: RunEnd): Conclusion
}

export type ParsedEvent = Omit<TaskEvent, 'id' | 'at' | 'raw' | 'status' | 'type'> & {
  type: Exclude<TaskEvent['type'], 'status'>
}

/** `totalCostUsd` is null while neither the agent nor the price table knows it. */
export type Spent = { usage: Usage; totalCostUsd: number | null; numTurns: number }

export type RunEnd = {
  /** Null if the agent was killed by a signal, unless the runner reports 128 + n. */
  exitCode: number | null
  timedOut: boolean
  /** The task was stopped by request. */
  wasStopped: boolean
  /** The last part of the agent's error output. */
  stderr: string
  /** The limit that the run reached: memory, disk, budget or max_turns. */
  limitHit: string | null
}

export type Conclusion = Spent & {
  outcome: Outcome
  reason: TaskReason
  /** For people; null for a success. */
  errorMessage: string | null
  agentSessionId: string | null
  responseText: string | null
  durationMs: number | null
}
