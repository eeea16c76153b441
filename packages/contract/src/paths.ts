// Method, path and kind of every route, free of zod so that the SDK can carry it.
//   json       one JSON reply             bytes      a raw body in the reply
//   sse        server-sent events         websocket  an upgraded connection

export const PATHS = {
  createSession: { method: 'POST', path: '/v1/sessions', kind: 'json' },
  listSessions: { method: 'GET', path: '/v1/sessions', kind: 'json' },
  listPreparations: { method: 'GET', path: '/v1/preparations', kind: 'json' },
  getSession: { method: 'GET', path: '/v1/sessions/{id}', kind: 'json' },
  deleteSession: { method: 'DELETE', path: '/v1/sessions/{id}', kind: 'json' },
  startSession: { method: 'POST', path: '/v1/sessions/{id}/start', kind: 'json' },
  stopSession: { method: 'POST', path: '/v1/sessions/{id}/stop', kind: 'json' },
  pauseSession: { method: 'POST', path: '/v1/sessions/{id}/pause', kind: 'json' },
  resumeSession: { method: 'POST', path: '/v1/sessions/{id}/resume', kind: 'json' },
  terminateSession: { method: 'POST', path: '/v1/sessions/{id}/terminate', kind: 'json' },
  renewSession: { method: 'POST', path: '/v1/sessions/{id}/renew', kind: 'json' },
  sessionStats: { method: 'GET', path: '/v1/sessions/{id}/stats', kind: 'json' },
  sessionLogs: { method: 'GET', path: '/v1/sessions/{id}/logs', kind: 'bytes' },
  exec: { method: 'POST', path: '/v1/sessions/{id}/exec', kind: 'json' },
  execStream: { method: 'POST', path: '/v1/sessions/{id}/exec/stream', kind: 'sse' },
  createShell: { method: 'POST', path: '/v1/sessions/{id}/shells', kind: 'json' },
  listShells: { method: 'GET', path: '/v1/sessions/{id}/shells', kind: 'json' },
  deleteShell: { method: 'DELETE', path: '/v1/sessions/{id}/shells/{name}', kind: 'json' },
  attachShell: { method: 'GET', path: '/v1/sessions/{id}/shells/{name}/attach', kind: 'websocket' },
  startProcess: { method: 'POST', path: '/v1/sessions/{id}/processes', kind: 'json' },
  listProcesses: { method: 'GET', path: '/v1/sessions/{id}/processes', kind: 'json' },
  getProcess: { method: 'GET', path: '/v1/sessions/{id}/processes/{pid}', kind: 'json' },
  attachProcess: { method: 'GET', path: '/v1/sessions/{id}/processes/{pid}/attach', kind: 'websocket' },
  processOutput: { method: 'GET', path: '/v1/sessions/{id}/processes/{pid}/output', kind: 'sse' },
  writeStdin: { method: 'POST', path: '/v1/sessions/{id}/processes/{pid}/stdin', kind: 'json' },
  signalProcess: { method: 'POST', path: '/v1/sessions/{id}/processes/{pid}/signal', kind: 'json' },
  fsWrite: { method: 'POST', path: '/v1/sessions/{id}/fs/write', kind: 'json' },
  fsRead: { method: 'GET', path: '/v1/sessions/{id}/fs/read', kind: 'json' },
  fsList: { method: 'GET', path: '/v1/sessions/{id}/fs/list', kind: 'json' },
  fsStat: { method: 'GET', path: '/v1/sessions/{id}/fs/stat', kind: 'json' },
  fsMkdir: { method: 'POST', path: '/v1/sessions/{id}/fs/mkdir', kind: 'json' },
  fsMove: { method: 'POST', path: '/v1/sessions/{id}/fs/move', kind: 'json' },
  fsRemove: { method: 'POST', path: '/v1/sessions/{id}/fs/remove', kind: 'json' },
  fsSearch: { method: 'GET', path: '/v1/sessions/{id}/fs/search', kind: 'json' },
  fsWatch: { method: 'GET', path: '/v1/sessions/{id}/fs/watch', kind: 'sse' },
  putFile: { method: 'PUT', path: '/v1/sessions/{id}/files', kind: 'json' },
  getFile: { method: 'GET', path: '/v1/sessions/{id}/files', kind: 'bytes' },
  putArchive: { method: 'PUT', path: '/v1/sessions/{id}/archive', kind: 'json' },
  getArchive: { method: 'GET', path: '/v1/sessions/{id}/archive', kind: 'bytes' },
  listPorts: { method: 'GET', path: '/v1/sessions/{id}/ports', kind: 'json' },
  dialPort: { method: 'GET', path: '/v1/sessions/{id}/ports/{port}/dial', kind: 'websocket' },
  listImages: { method: 'GET', path: '/v1/images', kind: 'json' },
  getImage: { method: 'GET', path: '/v1/images/{ref}', kind: 'json' },
  deleteImage: { method: 'DELETE', path: '/v1/images/{ref}', kind: 'json' },
  pullImage: { method: 'POST', path: '/v1/images/pull', kind: 'sse' },
  importImage: { method: 'POST', path: '/v1/images/import', kind: 'sse' },
  putSecret: { method: 'PUT', path: '/v1/secrets/{name}', kind: 'json' },
  listSecrets: { method: 'GET', path: '/v1/secrets', kind: 'json' },
  deleteSecret: { method: 'DELETE', path: '/v1/secrets/{name}', kind: 'json' },
  events: { method: 'GET', path: '/v1/events', kind: 'sse' },
  sessionEvents: { method: 'GET', path: '/v1/sessions/{id}/events', kind: 'sse' },
  healthz: { method: 'GET', path: '/healthz', kind: 'json' },
  readyz: { method: 'GET', path: '/readyz', kind: 'json' },
  metrics: { method: 'GET', path: '/metrics', kind: 'bytes' },
  openapi: { method: 'GET', path: '/openapi.json', kind: 'json' },
} as const satisfies Record<
  string,
  { method: 'GET' | 'POST' | 'PUT' | 'DELETE'; path: `/${string}`; kind: 'json' | 'sse' | 'websocket' | 'bytes' }
>

export type RouteName = keyof typeof PATHS

/** Fields whose keys are the user's own data: case conversion never enters them. */
export const OPAQUE_FIELDS = ['env', 'labels', 'detail', 'config'] as const
