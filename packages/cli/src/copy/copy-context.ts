// This folder copies files between this machine and sessions, for cp, `run --copy-in` and builds. A folder travels as a tar: pack.ts writes
// it, unpack.ts creates its entries on this machine, and to-sandbox.ts, from-sandbox.ts and between.ts move it.
import { posix } from 'node:path'
import type { Session } from '@sandglass/sdk'
import type { Progress } from './progress.ts'
import type { UnpackOptions } from './unpack.ts'

/** What every copy needs beside its two endpoints. */
export type CopyContext = {
  progress: Progress
  /** The user inside a session whose permissions apply; sandbox when absent. */
  user: { user?: 'sandbox' | 'root' }
  /** Gets the kind and name of an entry that is neither a file, a folder nor a link. */
  onLeftOut: (what: string) => void
  /** Gets the name of an unreadable entry, and the reason. */
  onUnreadable: (what: string) => void
  /** Gets an entry that is refused on this machine, and lets the copy go on without it. */
  onSkip: UnpackOptions['onSkip']
}

/** The names in an archive of a folder are relative to it. Unreadable entries are reported with the path of the folder in front. */
export const withPathPrefix = (path: string, copy: CopyContext): CopyContext => ({
  ...copy,
  onUnreadable: what => copy.onUnreadable(posix.join(path, what)),
})

export type CopyResult = { entries: number; target: string }

/** A path in a session. `name` is the session's name or id, as the user gave it. */
export type RemotePath = { session: Session; name: string; path: string }
