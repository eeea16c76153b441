// The errors of the facade. They mean that the infrastructure failed; how an agent fails is the outcome of its execution.
import { type ErrorCode, SandglassError } from '@sandglass/contract/tables'
import type { ExecutionResult } from './execution-result.ts'

export class SandboxError extends Error {
  override readonly name: string = 'SandboxError'
  /** The error of the daemon; undefined for an error on this side. */
  readonly code: ErrorCode | undefined
  /** The result of an execution that ended before the failure. */
  readonly result: ExecutionResult | undefined

  constructor(message: string, { cause, result }: { cause?: unknown; result?: ExecutionResult } = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = cause instanceof SandglassError ? cause.code : undefined
    this.result = result
  }
}

/** An image was not built. */
export class ImageBuildError extends SandboxError {
  override readonly name = 'ImageBuildError'
  /** The last lines of the failed step. */
  readonly output: readonly string[]

  constructor(message: string, options: { cause?: unknown } = {}) {
    super(message, options)
    const { cause } = options
    this.output = cause instanceof SandglassError && cause.is('IMAGE_BUILD_FAILED') ? cause.detail.output : []
  }
}

/** The process that decides on the traffic of sandboxes is not available. */
export class ProxyError extends SandboxError {
  override readonly name = 'ProxyError'
}

/** What the facade throws for a failure of any kind. */
export function sandboxError(error: unknown, result?: ExecutionResult): SandboxError {
  if (error instanceof SandboxError) return error
  const message = messageOf(error)
  if (error instanceof SandglassError && error.is('EGRESS_UNAVAILABLE')) return new ProxyError(message, { cause: error, result })
  return new SandboxError(message, { cause: error, result })
}

/** What `ensureImage` throws: failures that say nothing about the image stay general. */
export function buildError(error: unknown): SandboxError {
  if (error instanceof SandglassError && (error.is('DAEMON_UNREACHABLE') || error.is('EGRESS_UNAVAILABLE')))
    return sandboxError(error)
  return new ImageBuildError(messageOf(error), { cause: error })
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
