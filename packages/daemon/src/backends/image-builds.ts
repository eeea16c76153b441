// What backends do for image builds: an engine builds a whole image, a layer maker the layers of single steps.
import type { Readable } from 'node:stream'
import type { LayeredImage, TrustedCa } from './backend.ts'
import type { FoundPaths } from './rootfs/found-paths.ts'

/** A Dockerfile with its build context and options. */
export interface ImageBuild {
  /** For messages. */
  readonly name: string
  /** The images that FROM and COPY --from refer to. SECURITY: the builder resolves no other image. */
  readonly bases: readonly LayeredImage[]
  /** The text of the Dockerfile with the bases replaced by these names, in their order. */
  dockerfile(names: readonly string[]): string
  /** Tar file with the context. Its first `bytes` bytes are everything but the end-of-archive marker. Null for a build without files. */
  readonly context: { readonly path: string; readonly bytes: number } | null
  /** Text of the .dockerignore of the context. */
  readonly dockerignore: string | undefined
  readonly buildArgs: Readonly<Record<string, string>>
  readonly network: 'none' | 'default' | 'host'
  /** Limits of each step. */
  readonly memoryMb: number
  readonly cpuCores: number
  /** Cached steps up to this age may be reused; null reuses none. */
  readonly maxCacheAgeMs: number | null
  /** Whether later builds may reuse the steps of this one. */
  readonly keepsCache: boolean
  /** Called when a step begins, and again with `cached` if it is taken from the cache. */
  readonly onStep: (step: { step: number; steps: number; instruction: string; cached: boolean }) => void
  /** Called with whole lines. */
  readonly onOutput: (text: string) => void
}

/** Files of an image that become part of a layer of another one. */
export interface FileCopy {
  /** Absolute paths in the image, which may have the wildcards * ? and [. A link that is named here is followed. */
  readonly sources: readonly string[]
  /** Path in the layer, without links and without a slash at either end. A folder is copied as this; a file into it, if `intoFolder`, or else as this. */
  readonly into: string
  readonly intoFolder: boolean
  /** Folders above it, outermost first. */
  readonly parents: readonly { readonly path: string; readonly mode: number; readonly uid: number; readonly gid: number }[]
  /** Null keeps that of the files. */
  readonly owner: { readonly uid: number; readonly gid: number } | null
  readonly mode: number | null
}

export interface LayerLimits {
  readonly maxBytes: number
  readonly maxEntries: number
}

/**
 * Makes layers for builds without a Docker engine. The streams are the tars of layers; they fail with IMAGE_INVALID or IMAGE_TOO_LARGE instead of
 * ending when something cannot be part of a layer.
 */
export interface LayerMaker {
  /** Throws UNSUPPORTED where machines have no disk that can be read after their end. */
  check(): Promise<void>
  /** What the image has at these paths, with links followed inside the image. */
  find(image: LayeredImage, paths: readonly string[], signal: AbortSignal): Promise<FoundPaths>
  /** The changes that a machine made to its root filesystem. It has stopped. `trust` is what it was started with; it is left out. */
  changes(id: string, trust: TrustedCa | null, limits: LayerLimits, signal: AbortSignal): Promise<Readable>
  files(image: LayeredImage, copy: FileCopy, limits: LayerLimits, signal: AbortSignal): Promise<Readable>
  /** The programs of this machine that sessions with the image `host` see. `key` changes with them. */
  host(): Promise<{ readonly key: string; read(limits: LayerLimits, signal: AbortSignal): Readable }>
}
