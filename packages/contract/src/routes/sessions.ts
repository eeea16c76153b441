// Routes of sessions.
import { z } from 'zod'
import { queryBool, queryInt, SessionRef } from '../schemas/primitives.ts'
import * as session from '../schemas/session.ts'
import { Bytes, found, live, pulled, type RouteSchemas, sessionId } from './schemas.ts'

const started = [
  'AGENT_INSTALL_FAILED',
  'EGRESS_UNAVAILABLE',
  'POLICY_NOT_FOUND',
  'SECRET_NOT_FOUND',
  'SECRET_UNSCOPED',
  'START_FAILED',
  'BACKEND_UNAVAILABLE',
  'LIMIT_UNENFORCEABLE',
  'HOST_FULL',
  'UNSUPPORTED',
] as const

export const SESSIONS_ROUTES = {
  createSession: {
    summary: 'Create a session',
    status: 201,
    body: session.SessionSpec,
    reply: session.Session,
    creates: true,
    errors: ['NAME_TAKEN', 'IDEMPOTENCY_MISMATCH', ...pulled, ...started],
  },
  listSessions: { summary: 'List sessions', query: session.SessionQuery, reply: session.SessionList, errors: [] },
  listPreparations: {
    summary: 'List the work that creates and starts wait for, such as the preparation of an image',
    query: session.PreparationQuery,
    reply: session.PreparationList,
    errors: [],
  },
  getSession: {
    summary: 'Show a session',
    params: sessionId,
    query: z.strictObject({ reveal_env: queryBool.optional().describe('also the values of the environment variables') }),
    reply: session.Session,
    errors: [...found, 'SECRET_UNREADABLE'],
  },
  deleteSession: {
    summary: 'Terminate a session; purge also removes its row',
    params: sessionId,
    query: z.strictObject({ purge: queryBool.optional() }),
    reply: session.Session,
    errors: found,
  },
  startSession: {
    summary: 'Start a stopped or failed session',
    params: sessionId,
    body: session.StartRequest.optional(),
    reply: session.Session,
    errors: [...found, 'WRONG_STATE', ...started],
  },
  stopSession: {
    summary: 'Stop a session and keep its files',
    params: sessionId,
    reply: session.Session,
    errors: [...found, 'WRONG_STATE'],
  },
  pauseSession: {
    summary: 'Freeze every process of a session',
    params: sessionId,
    reply: session.Session,
    errors: [...found, 'WRONG_STATE', 'UNSUPPORTED', 'PAUSE_FAILED'],
  },
  resumeSession: {
    summary: 'Thaw a paused session',
    params: sessionId,
    reply: session.Session,
    errors: [...found, 'WRONG_STATE', 'UNSUPPORTED', 'HOST_FULL'],
  },
  terminateSession: { summary: 'End a session for good', params: sessionId, reply: session.Session, errors: found },
  renewSession: {
    summary: 'Restart the ttl of a session, or the retention of a stopped one',
    params: sessionId,
    body: session.RenewRequest,
    reply: session.Session,
    errors: [...found, 'WRONG_STATE'],
  },
  resizeSession: {
    summary: 'Change the limits of a session: at once if it runs on oci or docker, else at its next start',
    params: sessionId,
    body: session.ResizeRequest,
    reply: session.Session,
    errors: [...found, 'WRONG_STATE', 'UNSUPPORTED', 'MEMORY_IN_USE', 'RESIZE_FAILED', 'RUNNER_LOST', 'BACKEND_UNAVAILABLE'],
  },
  sessionStats: { summary: 'Resource use of a session', params: sessionId, reply: session.SessionStats, errors: live },
  sessionLogs: { summary: 'Boot log of a session', params: sessionId, reply: Bytes, errors: found },
  listPorts: { summary: 'List listening TCP ports', params: sessionId, reply: session.PortList, errors: live },
  dialPort: {
    summary: 'Connect to a TCP port inside; messages are raw bytes',
    params: z.strictObject({ id: SessionRef, port: queryInt(1, 65_535) }),
    reply: Bytes,
    errors: [...live, 'PORT_CLOSED'],
  },
  events: { summary: 'Follow the state changes of all sessions', reply: session.SessionEventRecord, errors: [] },
  sessionEvents: {
    summary: 'Follow the state changes of a session',
    params: sessionId,
    reply: session.SessionEventRecord,
    errors: found,
  },
} as const satisfies Record<string, RouteSchemas>
