// The paths of Sandglass's own files in every sandbox.

export const RUNNER_PATH = '/.sandglass/runner'
/** Where a runner that inherits no socket creates its own. */
export const SOCKET_FOLDER = '/.sandglass-run'
