// Paths of Sandglass's own files in every sandbox that only backends need.
import { AGENTS, AGENTS_FOLDER } from '@sandglass/contract/tables'

/** Where a runner that inherits no socket creates its own. */
export const SOCKET_FOLDER = '/.sandglass-run'
export const PACKAGES_PARENT = '/opt'
/** Mount points of packages, in the order in which they are made. */
export const PACKAGE_FOLDERS: readonly string[] = [
  'opt',
  AGENTS_FOLDER.slice(1),
  ...AGENTS.map(agent => `${AGENTS_FOLDER}/${agent}`.slice(1)),
]
