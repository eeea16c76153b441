// Names and ids of images, shortened for a table.
/** The reference without the prefix of Docker Hub. */
export const shortName = (reference: string): string => reference.replace(/^docker\.io\/(library\/)?/, '')

/** The first 12 digits of an id. */
export const shortId = (id: string): string => id.replace(/^sha256:/, '').slice(0, 12)
