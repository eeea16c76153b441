// Facts about the inside of every sandbox, on every backend.

/** Folder where programs start. It is on the disk of the session. */
export const WORKSPACE = '/workspace'
/** Home of the user that programs run as. It is on the disk of the session. */
export const SANDBOX_HOME = '/home/sandbox'
/** PATH where neither an image nor a request sets one. */
export const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
/** The program that runs in every sandbox as its first process. */
export const RUNNER_PATH = '/.sandglass/runner'
/** Folder with a folder for each installed agent. */
export const AGENTS_FOLDER = '/opt/sandglass'
/** Folders that the file calls reach. Any other path is refused. */
export const FILE_ROOTS = [WORKSPACE, '/tmp', SANDBOX_HOME] as const
