// Errors about files and archives, of a sandbox and on the way to and from it.
import type { ErrorRow } from './row.ts'

export const FILES_ERRORS = {
  PERMISSION_DENIED: {
    http: 403,
    exit: 3,
    text: (d: { path: string; where?: string }) => `permission denied${d.where ? ` ${d.where}` : ''}: ${d.path}`,
    hint: (d: { where?: string }) =>
      d.where
        ? 'choose a folder that you may write to'
        : 'the call runs as the user sandbox; retry with `--user root` (API: `user`), unless the filesystem is read-only',
  },
  FILE_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { path: string; where?: string }) => `no such file or directory${d.where ? ` ${d.where}` : ''}: ${d.path}`,
  },
  FILE_EXISTS: { http: 409, exit: 5, text: (d: { path: string }) => `already exists: ${d.path}` },
  NOT_EMPTY: {
    http: 409,
    exit: 5,
    text: (d: { path: string }) => `directory not empty: ${d.path}`,
    hint: 'pass recursive to remove what is inside',
  },
  PATH_OUTSIDE_WORKSPACE: {
    http: 400,
    exit: 2,
    text: (d: { path: string }) => `path is not accessible through the file API: ${d.path}`,
    hint: 'use a path in /workspace, /tmp or /home/sandbox that no symbolic link leads out of; `--user root` (API: `user`) reaches all but /proc and /sys',
  },
  IS_A_DIRECTORY: {
    http: 400,
    exit: 2,
    text: (d: { path: string }) => `is a directory: ${d.path}`,
    hint: 'use the archive call for directories',
  },
  NOT_A_DIRECTORY: { http: 400, exit: 2, text: (d: { path: string }) => `not a directory: ${d.path}` },
  NOT_A_FILE: { http: 400, exit: 2, text: (d: { path: string }) => `not a regular file: ${d.path}` },
  ARCHIVE_UNSAFE: {
    http: 400,
    exit: 2,
    text: (d: { entry: string; issue: string; next?: string }) => `archive refused: ${d.entry}: ${d.issue}`,
    hint: (d: { next?: string }) =>
      d.next ?? 'nothing after that entry was unpacked',
  },
  RANGE_NOT_SATISFIABLE: {
    http: 416,
    exit: 2,
    text: (d: { size: number }) => `range starts past the end of the file (${d.size} bytes)`,
  },
  DISK_FULL: {
    http: 507,
    exit: 3,
    text: (d: { path: string }) => `no space left in the sandbox: ${d.path}`,
    hint: 'remove files, or create the session with a larger disk_mb',
  },
  TRANSFER_CUT: {
    http: 502,
    exit: 3,
    text: (d: { id: string }) => `the transfer from session ${d.id} was interrupted`,
    hint: "the session is still running; the daemon's log has the reason; try again",
  },
  SOURCE_FAILED: {
    http: 400,
    exit: 3,
    text: (d: { path: string; why: string }) => `${d.path} could not be sent: ${d.why}`,
    hint: 'send it again when nothing else writes to it',
  },
  PARTLY_COPIED: {
    http: 403,
    exit: 3,
    text: (d: { count: number; first: string }) =>
      d.count === 1
        ? `one entry could not be read and was not copied: ${d.first}`
        : `${d.count} entries could not be read and were not copied; the first is ${d.first}`,
    hint: 'the rest was copied; `sandglass cp --user root` reads everything in a session',
  },
  FILE_NOT_JSON: {
    http: 400,
    exit: 3,
    text: (d: { path: string; why: string }) => `${d.path} does not contain JSON: ${d.why}`,
    hint: 'read it as text to see what it contains',
  },
  TARGET_FULL: {
    http: 507,
    exit: 3,
    text: (d: { path: string; bytes: number; free: number }) =>
      `not enough space for ${d.path} on this machine: it needs at least ${d.bytes} bytes, and ${d.free} are free`,
    hint: 'copy to a disk with more space; a sparse file is copied at its full length',
  },
} as const satisfies Record<string, ErrorRow>
