// Claude Code: `claude -p` with one JSON object per line on stdout.
import type { AgentAdapter, AgentCommand, AgentFile, AgentRun, ResolvedMcp } from './adapter.ts'
import { claudeParser } from './claude-parser.ts'
import { COMMON_ENV } from './environment.ts'

export const claude: AgentAdapter = { agent: 'claude', launch, parser: claudeParser }

const HEADLESS = ['-p', '--output-format', 'stream-json', '--verbose', '--forward-subagent-text']
/** Tools that the model provider runs, or that ask it about addresses. */
const WEB_TOOLS = 'WebFetch,WebSearch'

function launch(run: AgentRun): AgentCommand {
  const folder = `${run.home}/.claude`
  const mcpFile = `${folder}/sandglass-mcp.json`
  return {
    argv: [
      run.program,
      ...(run.isInteractive ? [] : HEADLESS),
      '--dangerously-skip-permissions',
      // SECURITY: .claude/settings.json of a repository can set hooks, the endpoint and the model, and .mcp.json can start programs.
      ...(run.trustRepoConfig ? [] : ['--setting-sources', 'user', '--strict-mcp-config']),
      ...(run.allowWebTools ? [] : ['--disallowed-tools', WEB_TOOLS]),
      ...(Object.keys(run.mcp).length === 0 ? [] : ['--mcp-config', mcpFile]),
      ...(run.model === null ? [] : ['--model', run.model]),
      ...(run.resume === null ? [] : ['--resume', run.resume]),
      ...(run.maxTurns === null || run.isInteractive ? [] : ['--max-turns', String(run.maxTurns)]),
      ...(run.maxCostUsd === null || run.isInteractive ? [] : ['--max-budget-usd', String(run.maxCostUsd)]),
    ],
    env: {
      ...COMMON_ENV,
      CLAUDE_CONFIG_DIR: folder,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_AUTOUPDATER: '1',
      DISABLE_UPDATES: '1',
      DISABLE_TELEMETRY: '1',
      DISABLE_ERROR_REPORTING: '1',
      DISABLE_INSTALLATION_CHECKS: '1',
      // Whatever runs in the background dies with the turn.
      CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: '1',
      CLAUDE_CODE_DISABLE_CRON: '1',
      CLAUDE_CODE_IDE_SKIP_AUTO_INSTALL: '1',
      CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL: '1',
      // About 15 seconds; the default of 10 takes minutes, and tasks have retries of their own.
      CLAUDE_CODE_MAX_RETRIES: '5',
      ...(run.baseUrl !== null && { ANTHROPIC_BASE_URL: run.baseUrl }),
    },
    files: [
      json(`${folder}/settings.json`, settings(run)),
      json(`${folder}/.claude.json`, onboarded(run)),
      // With the settings of a repository, --setting-sources also leaves out its CLAUDE.md, which is only text.
      { path: `${folder}/CLAUDE.md`, text: run.trustRepoConfig ? '' : `@${run.cwd}/CLAUDE.md\n`, mode: '600' },
      json(mcpFile, {
        mcpServers: Object.fromEntries(Object.entries(run.mcp).map(([name, server]) => [name, mcpServer(server)])),
      }),
    ],
  }
}

const settings = (run: AgentRun) => ({
  permissions: { defaultMode: 'bypassPermissions' },
  skipDangerousModePermissionPrompt: true,
  sandbox: { enabled: false },
  enableAllProjectMcpServers: run.trustRepoConfig,
  // A context is resumed after any time; the default deletes conversations after 30 days.
  cleanupPeriodDays: 36_500,
})

/** What a person has answered after the first interactive start. */
const onboarded = (run: AgentRun) => ({
  hasCompletedOnboarding: true,
  hasSeenAutoDefaultNudge: true,
  bypassPermissionsModeAccepted: true,
  theme: 'dark',
  autoUpdates: false,
  // The screen knows an approved key by its end.
  ...(run.surrogate !== undefined && { customApiKeyResponses: { approved: [run.surrogate.slice(-20)], rejected: [] } }),
  projects: { [run.cwd]: { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true } },
})

function mcpServer(server: ResolvedMcp): object {
  if ('command' in server) return { type: 'stdio', command: server.command[0], args: server.command.slice(1), env: server.env }
  const headers = server.bearerEnv === null ? {} : { Authorization: `Bearer \${${server.bearerEnv}}` }
  return { type: 'http', url: server.url, headers }
}

function json(path: string, value: object): AgentFile {
  return { path, text: `${JSON.stringify(value, null, 2)}\n`, mode: '600' }
}
