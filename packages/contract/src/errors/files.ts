// Errors of files and archives: in a sandbox, and during transfers.
import type { ErrorRow } from './row.ts'

export const FILES_ERRORS = {
  PERMISSION_DENIED: {
    http: 403,
    exit: 3,
    text: (d: { path: string; where?: string; read_only?: boolean; user?: 'root' }) =>
      `${d.read_only ? 'read-only filesystem' : 'permission denied'}${d.where ? ` ${d.where}` : ''}: ${d.path}`,
    hint: (d: { where?: string; read_only?: boolean; user?: 'root' }) => {
      if (d.where) return 'choose a folder that you may write to'
      if (d.read_only)
        return 'the root filesystem of a session is read-only; `sandglass new --no-readonly-rootfs` (API: `readonly_rootfs`) makes one that root can write to'
      if (d.user === 'root') return 'the call already ran as root: the file is in use, or its filesystem does not allow it'
      return 'the call runs as the user sandbox; retry with `--user root` (API: `user`)'
    },
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
    hint: 'pass recursive to remove its content as well',
  },
  PATH_OUTSIDE_WORKSPACE: {
    http: 400,
    exit: 2,
    text: (d: { path: string; user?: 'root' }) => `path is not accessible through the file API: ${d.path}`,
    hint: (d: { user?: 'root' }) =>
      d.user === 'root'
        ? 'the file API does not reach /proc and /sys; read such a file with `sandglass exec`'
        : 'use a path in /workspace, /tmp or /home/sandbox without symbolic links to other places; `--user root` (API: `user`) reaches everything but /proc and /sys',
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
    hint: (d: { next?: string }) => d.next ?? 'nothing after that entry was unpacked',
  },
  RANGE_NOT_SATISFIABLE: {
    http: 416,
    exit: 2,
    text: (d: { size: number }) => `range starts past the end of the file (${d.size} bytes)`,
  },
  DISK_FULL: {
    http: 507,
    exit: 3,
    text: (d: { path: string; in_memory?: boolean }) => `no space left in the sandbox: ${d.path}`,
    hint: (d: { in_memory?: boolean }) =>
      d.in_memory
        ? '/tmp is kept in memory and holds half of memory_mb: remove files there, use /workspace, or create the session with a larger memory_mb'
        : 'remove files, or create the session with a larger disk_mb',
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
    hint: 'send it again while nothing else writes to it',
  },
  PARTLY_COPIED: {
    http: 403,
    exit: 3,
    text: (d: { count: number; first?: string | undefined; is_root_untried?: boolean }) =>
      (d.count === 1
        ? 'one entry could not be read and was not copied'
        : `${d.count} entries could not be read and were not copied`) +
      (d.first === undefined ? '' : d.count === 1 ? `: ${d.first}` : `; the first is ${d.first}`),
    hint: (d: { is_root_untried?: boolean }) =>
      d.is_root_untried ? 'the rest was copied; `sandglass cp --user root` reads everything in a session' : 'the rest was copied',
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
