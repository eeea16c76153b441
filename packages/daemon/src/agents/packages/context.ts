// Agent packages: the programs of the coding agents, which the daemon downloads and every backend shows read-only in sandboxes. table.ts says
// which packages, install.ts brings them in, installed.ts knows what is there, list.ts lists and removes it.
// This is what they work with; the daemon's context includes it.
import type { InstalledAgent } from '@sandglass/contract'
import type { ImageContext } from '../../images/context.ts'
import { SingleFlight } from '../../lib/single-flight.ts'
import type { InstallReport } from './report.ts'

export type AgentContext = ImageContext & { readonly dataDir: string; readonly agents: AgentState }

export type AgentState = {
  /** Installs under way, by agent and version. */
  readonly installs: SingleFlight<InstalledAgent, InstallReport>
  readonly limits: InstallLimits
}

export type InstallLimits = {
  /** Of the tarball. */
  readonly maxBytes: number
  readonly maxUnpackedBytes: number
  readonly deadlineMs: number
}

const GiB = 1024 ** 3
const LIMITS: InstallLimits = { maxBytes: GiB, maxUnpackedBytes: 4 * GiB, deadlineMs: 1_800_000 }

export const agentState = (limits: Partial<InstallLimits> = {}): AgentState => ({
  installs: new SingleFlight(),
  limits: { ...LIMITS, ...limits },
})
