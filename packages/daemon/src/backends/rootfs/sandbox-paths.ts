// Where Sandglass's own things are, in every sandbox.

export const RUNNER_PATH = '/.sandglass/runner'
/** Where a runner that is given no socket makes its own. */
export const SOCKET_FOLDER = '/.sandglass-run'
