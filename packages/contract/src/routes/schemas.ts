// The type of a route without its path, and parts that several routes share.
import { z } from 'zod'
import type { ErrorCode } from '../errors.ts'
import { SessionRef } from '../schemas/primitives.ts'

export type RouteSchemas = {
  summary: string
  /** HTTP status of success; 200 when absent. */
  status?: number
  params?: z.ZodType
  query?: z.ZodType
  body?: z.ZodType
  /** The headers that the route reads, in lower case. */
  headers?: z.ZodType
  /** The request body is raw bytes of any size. */
  rawBody?: string
  reply: z.ZodType
  /** Takes an Idempotency-Key, so that a client may repeat the request. */
  creates?: boolean
  public?: boolean
  errors: readonly ErrorCode[]
}

export const sessionId = z.strictObject({ id: SessionRef })
export const Bytes = z.unknown().describe('raw bytes')
export const found = ['SESSION_NOT_FOUND'] as const
export const live = ['SESSION_NOT_FOUND', 'WRONG_STATE', 'RUNNER_LOST'] as const
export const stored = ['IMAGE_INVALID', 'IMAGE_TOO_LARGE', 'IMAGE_DIGEST_MISMATCH', 'IMAGE_STORE_FULL'] as const
export const pulled = ['IMAGE_NOT_ALLOWED', 'IMAGE_NOT_FOUND', 'REGISTRY_DENIED', 'REGISTRY_FAILED', ...stored] as const
