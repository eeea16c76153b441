/** How people write it: without what every name of Docker Hub has in front. */
export const shortName = (reference: string): string => reference.replace(/^docker\.io\/(library\/)?/, '')

/** As much of an id as is needed to tell images apart. */
export const shortId = (id: string): string => id.replace(/^sha256:/, '').slice(0, 12)
