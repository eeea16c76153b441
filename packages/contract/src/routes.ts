// All routes of the API. The validation in the daemon, OpenAPI, the types of the SDK and the reference pages are made from them.
import type { z } from 'zod'
import { DAEMON_ROUTES } from './routes/daemon.ts'
import { EXEC_ROUTES } from './routes/exec.ts'
import { FILES_ROUTES } from './routes/files.ts'
import { IMAGES_ROUTES } from './routes/images.ts'
import { NETWORK_ROUTES } from './routes/network.ts'
import type { RouteSchemas } from './routes/schemas.ts'
import { SECRETS_ROUTES } from './routes/secrets.ts'
import { SESSIONS_ROUTES } from './routes/sessions.ts'
import { TASKS_ROUTES } from './routes/tasks.ts'
import { PATHS, type RouteName } from './tables/paths.ts'

const SCHEMAS = {
  ...SESSIONS_ROUTES,
  ...EXEC_ROUTES,
  ...FILES_ROUTES,
  ...IMAGES_ROUTES,
  ...SECRETS_ROUTES,
  ...NETWORK_ROUTES,
  ...TASKS_ROUTES,
  ...DAEMON_ROUTES,
} as const satisfies Record<RouteName, RouteSchemas>

export type Route = RouteSchemas & (typeof PATHS)[RouteName]
type Routes = { [N in RouteName]: (typeof PATHS)[N] & (typeof SCHEMAS)[N] }

export const ROUTES = Object.fromEntries(
  (Object.keys(PATHS) as RouteName[]).map(name => [name, { ...PATHS[name], ...SCHEMAS[name] }]),
) as Routes

type Parsed<N extends RouteName, K extends string> =
  Routes[N] extends Record<K, infer S> ? (S extends z.ZodType ? z.output<S> : undefined) : undefined
type Sent<N extends RouteName, K extends string> =
  Routes[N] extends Record<K, infer S> ? (S extends z.ZodType ? z.input<S> : undefined) : undefined
/** What a handler receives after parsing. */
export type RouteParams<N extends RouteName> = Parsed<N, 'params'>
export type RouteQuery<N extends RouteName> = Parsed<N, 'query'>
export type RouteHeaders<N extends RouteName> = Parsed<N, 'headers'>
export type RouteBody<N extends RouteName> = Parsed<N, 'body'>
export type RouteReply<N extends RouteName> = Parsed<N, 'reply'>
/** What a client sends. */
export type RequestBody<N extends RouteName> = Sent<N, 'body'>
