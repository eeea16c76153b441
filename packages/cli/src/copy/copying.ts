import { posix } from 'node:path'
import type { Session } from '@sandglass/sdk'
import type { Progress } from './progress.ts'
import type { UnpackOptions } from './unpack.ts'

/** What every kind of copy is given beside its two ends. */
export type Copying = {
  progress: Progress
  /** Whose rights it has in a session; those of the user sandbox where it is absent. */
  user: { user?: 'sandbox' | 'root' }
  /** Gets the kind and name of what is neither a file, a folder nor a link. */
  onLeftOut: (what: string) => void
  /** Gets the name of what could not be read, and the reason. */
  onUnreadable: (what: string) => void
  /** Leaves out entries that are refused on this machine, where that was asked for. */
  onSkip: UnpackOptions['onSkip']
}

/** For an archive of a session's folder, whose entries are named relative to it: what cannot be read gets the folder's name, as it was given. */
export const namedBelow = (path: string, copying: Copying): Copying => ({
  ...copying,
  onUnreadable: what => copying.onUnreadable(posix.join(path, what)),
})

export type Copied = { entries: number; target: string }

/** A place in a session. `name` is what the session was called. */
export type Remote = { session: Session; name: string; path: string }
