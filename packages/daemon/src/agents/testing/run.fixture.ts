// For tests: the description of a run, with what a test does not care about filled in.
import type { AgentRun } from '../adapters/adapter.ts'

export const aRun = (more: Partial<AgentRun> = {}): AgentRun => ({
  program: '/opt/sandglass/agent/bin/agent',
  home: '/home/sandbox',
  cwd: '/workspace',
  isInteractive: false,
  model: null,
  resume: null,
  maxTurns: null,
  maxCostUsd: null,
  baseUrl: null,
  trustRepoConfig: false,
  allowWebTools: false,
  mcp: {},
  credentialEnv: null,
  usageBefore: null,
  ...more,
})
