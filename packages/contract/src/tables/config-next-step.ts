// What to do about a configuration file that is not there, or not yours.

export const makeConfigFile = (path: string): string =>
  `name a file that is there, or make this one: sandglass init --config ${path}`

export const ownConfigFile = (path: string): string => `sudo chown "$(id -u)" ${path}`
