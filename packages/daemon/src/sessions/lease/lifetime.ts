// How long a session may go unused and what happens then, from what a request asks and what its mode stands for.
import { SandglassError, type SessionSpec } from '@sandglass/contract'
import type { SessionRow } from '../../store/tables.ts'

export type Lifetime = Pick<SessionRow, 'mode' | 'ttl_seconds' | 'on_expiry' | 'timeout_sec'>

export function lifetimeOf(spec: SessionSpec, defaultTtlSeconds: number): Lifetime {
  const mode = modeOf(spec)
  const ttl_seconds = spec.ttl_seconds === undefined ? defaultTtlSeconds : spec.ttl_seconds
  refuseEndless(mode, ttl_seconds)
  return {
    mode,
    ttl_seconds,
    on_expiry: spec.on_expiry ?? (mode === 'persistent' ? 'stop' : 'end'),
    timeout_sec: spec.timeout_sec ?? null,
  }
}

/** An ephemeral session that nobody uses must end some time. */
export function refuseEndless(mode: SessionRow['mode'], ttlSeconds: number | null): void {
  if (ttlSeconds === null && mode === 'ephemeral')
    throw new SandglassError('INVALID_REQUEST', {
      issue: 'ttl_seconds: only a persistent session can have none',
      next: 'give a number of seconds, or create the session with persist: true (--persist)',
    })
}

function modeOf({ persist, mode }: SessionSpec): SessionRow['mode'] {
  if (persist !== undefined && mode !== undefined && persist !== (mode === 'persistent')) {
    throw new SandglassError('INVALID_REQUEST', { issue: `persist: ${persist} and mode: ${mode} contradict each other` })
  }
  return mode ?? (persist ? 'persistent' : 'ephemeral')
}
