// Environment that every agent gets: nobody answers questions, and the agent is told that it is inside a sandbox.
export const COMMON_ENV: Readonly<Record<string, string>> = {
  CI: '1',
  NO_COLOR: '1',
  IS_SANDBOX: '1',
  GIT_TERMINAL_PROMPT: '0',
  LANG: 'C.UTF-8',
  LC_ALL: 'C.UTF-8',
}
