// How long a session may go unused and what happens then: what a request says, and the defaults of its mode.
import { SandglassError, type SessionSpec } from '@sandglass/contract'
import type { SessionRecord } from '../session-record.ts'

type Lifetime = Pick<SessionRecord, 'mode' | 'ttl_seconds' | 'on_expiry' | 'timeout_sec'>

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
export function refuseEndless(mode: SessionRecord['mode'], ttlSeconds: number | null): void {
  if (ttlSeconds === null && mode === 'ephemeral')
    throw new SandglassError('INVALID_REQUEST', {
      issue: 'ttl_seconds: only a persistent session can have none',
      next: 'give a number of seconds, or create the session with persist: true (--persist)',
    })
}

function modeOf({ persist, mode }: SessionSpec): SessionRecord['mode'] {
  if (persist !== undefined && mode !== undefined && persist !== (mode === 'persistent')) {
    throw new SandglassError('INVALID_REQUEST', { issue: `persist: ${persist} and mode: ${mode} contradict each other` })
  }
  return mode ?? (persist ? 'persistent' : 'ephemeral')
}
