// What a route is, beside its path, and what several of them have.
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
  /** Those that the route reads, in small letters. */
  headers?: z.ZodType
  /** The request body is raw bytes of any size. */
  rawBody?: string
  reply: z.ZodType
  /** May be sent again by a client that lost the answer. */
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
