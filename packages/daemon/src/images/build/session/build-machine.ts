// The machines that run the steps of a build without a Docker engine. sessions/builds implements them: images know no session.
import type { LayeredImage, TrustedCa } from '../../../backends/backend.ts'
import type { LayerMaker } from '../../../backends/image-builds.ts'

export interface StepProgram {
  readonly argv: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

export interface BuildMachine {
  readonly id: string
  /** The certificate authority that its programs trust; null without a network. */
  readonly trust: TrustedCa | null
  /** Runs a program as root and returns its exit code. `onOutput` gets what it prints. */
  run(program: StepProgram, onOutput: (bytes: Buffer) => void, signal: AbortSignal): Promise<number>
  /** Why a program may have failed: a sentence about a limit that was reached; null for none. */
  limitHit(): Promise<string | null>
  /** Ends every process and keeps the disk. */
  stop(): Promise<void>
  /** Ends everything and removes it. */
  destroy(): Promise<void>
}

export interface BuildMachines {
  /** The layers of the backend that machines start on. Throws BACKEND_UNAVAILABLE or UNSUPPORTED if none can start here. */
  layers(): Promise<LayerMaker>
  /** Throws HOST_FULL, EGRESS_UNAVAILABLE or START_FAILED. */
  start(image: LayeredImage, signal: AbortSignal): Promise<BuildMachine>
}
