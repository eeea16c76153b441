// Where the programs of the coding agents come from: packages of the npm registry that contain a native program for one platform, so that a
// sandbox needs no Node. The digests are those of the versions that this release was tested with.
import type { AgentName } from '@sandglass/contract'

export interface AgentPackage {
  readonly version: string
  /** Package whose tag `latest` names the newest version. */
  readonly main: string
  readonly platforms: Readonly<Record<Platform, PlatformPackage>>
}

export type Platform = 'x64' | 'arm64'

export interface PlatformPackage {
  readonly name: string
  /** Follows the version of the agent in the version of the package. */
  readonly suffix: string
  /** Path of the program in the package. */
  readonly program: string
  /** Path of a folder in the package with programs that the agent looks for in PATH; null for none. */
  readonly tools: string | null
  /** SHA-512 of the package of the pinned version; null where only the registry knows it. */
  readonly integrity: string | null
}

const codexAt = (triple: string) =>
  ({ name: '@openai/codex', program: `vendor/${triple}/bin/codex`, tools: `vendor/${triple}/codex-path` }) as const

export const AGENT_PACKAGES: Readonly<Record<AgentName, AgentPackage>> = {
  claude: {
    version: '2.1.326',
    main: '@anthropic-ai/claude-code',
    platforms: {
      x64: {
        name: '@anthropic-ai/claude-code-linux-x64',
        suffix: '',
        program: 'claude',
        tools: null,
        integrity: 'sha512-RvNuaeMGfPGUyUGttVvhHgVUZ3B2L+Pgf336ImZLsPP2UQHYblewi47CPFLObqz+K6D++PLP1eAsDBLYko3w+g==',
      },
      arm64: {
        name: '@anthropic-ai/claude-code-linux-arm64',
        suffix: '',
        program: 'claude',
        tools: null,
        integrity: 'sha512-lZCCWXarB/1IeHkotI937eEdN4BCbVdWDdmejtlkbUO9M29rHjITtXW9BWCDFlxvo0GXsFogN0SFIJWgMelKLw==',
      },
    },
  },
  codex: {
    version: '0.169.0',
    main: '@openai/codex',
    platforms: {
      x64: {
        ...codexAt('x86_64-unknown-linux-musl'),
        suffix: '-linux-x64',
        integrity: 'sha512-o05NyAOCDygSPRo1yinzxvkRSdmsZyBD9E7mbpmjRanSfM8lypqWtQgEo4XfNkwhuCR2aFu8mlGOsQGFXVbVww==',
      },
      arm64: {
        ...codexAt('aarch64-unknown-linux-musl'),
        suffix: '-linux-arm64',
        integrity: 'sha512-NZ/DaQUpcQmxmqee7Z9uC1rzw3GhSbooawcaTe1LN5Yk+WlinUKGdTXJgClRT/9ogQEEM9TWxYzvxPfj5G/xFg==',
      },
    },
  },
  opencode: {
    version: '1.18.33',
    main: 'opencode-ai',
    platforms: {
      x64: {
        // The other package needs AVX2, which an emulated or an older processor may lack.
        name: 'opencode-linux-x64-baseline',
        suffix: '',
        program: 'bin/opencode',
        tools: null,
        integrity: 'sha512-1KQGBiiDDeL/VHHbHkOvvFo8Jr97WT5+C1tear+p7IcDTnXgVHXqIjU4O4jM4mHQzykTP2i884FCnW5LDa+zCA==',
      },
      arm64: { name: 'opencode-linux-arm64', suffix: '', program: 'bin/opencode', tools: null, integrity: null },
    },
  },
}

/** The package for this machine. */
export const platformPackage = (agent: AgentName): PlatformPackage =>
  AGENT_PACKAGES[agent].platforms[process.arch === 'arm64' ? 'arm64' : 'x64']
