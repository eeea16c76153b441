// The adapters of all agents.
import type { AgentName } from '@sandglass/contract'
import type { AgentAdapter } from './adapter.ts'
import { claude } from './claude.ts'
import { codex } from './codex.ts'
import { opencode } from './opencode.ts'

export const ADAPTERS: Readonly<Record<AgentName, AgentAdapter>> = { claude, codex, opencode }
