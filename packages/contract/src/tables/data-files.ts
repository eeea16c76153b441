/** Files in data_dir that the daemon writes and its clients on the same machine read. */
export const DATA_FILES = { socket: 'sandglass.sock', apiKey: 'api-key', daemonLog: 'daemon.log', pid: 'lock.pid' } as const
