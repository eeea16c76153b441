// What an image has at some paths, as the launcher reports it for unpacked layers and find-in-layers.ts for the tars of layers.

/** By path as it was asked for. `path` is where it leads to, without links; `content` is base64, and missing for a long file. */
export type FoundPaths = Readonly<Record<string, FoundPath>>

export interface FoundPath {
  readonly kind: '' | 'file' | 'folder' | 'other'
  readonly path?: string
  readonly content?: string
  /** Mode and owner are missing for 0, and from tars of layers. */
  readonly mode?: number
  readonly uid?: number
  readonly gid?: number
}

/** The content of a file; empty if there is no file or it is too long. */
export const contentAt = (found: FoundPaths, path: string): Buffer => Buffer.from(found[path]?.content ?? '', 'base64')
