// The overlay layer on top of every image: mount points, the user sandbox, and the files of name resolution. An image may lack them or have links in
// their place; a folder of an upper layer hides a link of a lower one.
import { createHash, randomBytes } from 'node:crypto'
import { chmod, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { renameDurably } from '../../lib/durable-rename.ts'
import { isMissing } from '../../lib/missing-file.ts'
import { folderForAll, NETWORK_FILES, NSSWITCH, processorsMark, writeProcessors } from './host-image.ts'
import { withSandboxUser } from './image-users.ts'

/** What an image has at each of INSPECTED_PATHS, with links followed. `content` is base64. */
export type FoundPaths = Readonly<Record<string, { readonly kind: '' | 'file' | 'folder' | 'other'; readonly content?: string }>>

/** Folder of the overlay layers below the images folder of a backend. The name on disk is older than the term: existing data folders have it. */
export const OVERLAY_LAYERS = 'tops'

export const INSPECTED_PATHS = [
  '/etc/passwd',
  '/etc/group',
  '/etc/nsswitch.conf',
  '/etc/mtab',
  '/bin/bash',
  '/bin/sh',
  '/usr/bin/bash',
]

const FOLDERS = [
  'dev',
  'etc',
  'home',
  'home/sandbox',
  'proc',
  'run',
  'sys',
  'sys/fs/cgroup',
  'tmp',
  'workspace',
  '.sandglass',
  '.sandglass-run',
]
const TMP_MODE = 0o1777
const VERSION = 2

export interface OverlayLayer {
  /** Name of its folder below `dir`. */
  readonly name: string
  /** Name of the user that the sandbox's programs run as. */
  readonly user: string
}

/** The part of a layer's name that depends on its image. */
export const overlayLayerPrefix = (imageId: string): string => imageId.replace(/^sha256:/, '').slice(0, 32)

/** `inspect` is called only when the layer does not exist yet. */
export async function prepareOverlayLayer(
  dir: string,
  imageId: string,
  inspect: () => Promise<FoundPaths>,
): Promise<OverlayLayer> {
  const mark = createHash('sha256').update(JSON.stringify([VERSION, FOLDERS, NETWORK_FILES, NSSWITCH, await processorsMark()]))
  const name = `${overlayLayerPrefix(imageId)}-${mark.digest('hex').slice(0, 16)}`
  const folder = join(dir, name)
  const known = await userOf(folder)
  if (known !== null) return { name, user: known }
  const found = await inspect()
  const building = `${folder}.${randomBytes(6).toString('hex')}.new`
  const user = await build(building, found)
  await renameDurably(building, folder).catch(async error => {
    // Another start may have made it meanwhile.
    await rm(building, { recursive: true, force: true })
    if ((await userOf(folder)) === null) throw error
  })
  return { name, user }
}

async function build(folder: string, found: FoundPaths): Promise<string> {
  await mkdir(dirname(folder), { recursive: true, mode: 0o700 })
  for (const name of ['', ...FOLDERS]) await folderForAll(join(folder, name))
  // runc gives a tmpfs the mode of the folder that it covers.
  await chmod(join(folder, 'tmp'), TMP_MODE)
  const text = (path: string) => Buffer.from(found[path]?.content ?? '', 'base64').toString('latin1')
  const shell = found['/bin/bash']?.kind === 'file' ? '/bin/bash' : '/bin/sh'
  const users = withSandboxUser(text('/etc/passwd'), text('/etc/group'), shell)
  const files: Record<string, string> = { ...NETWORK_FILES, 'etc/passwd': users.passwd, 'etc/group': users.group }
  if (found['/etc/nsswitch.conf']?.kind !== 'file') files['etc/nsswitch.conf'] = NSSWITCH
  for (const [path, content] of Object.entries(files)) {
    await writeFile(join(folder, path), content, 'latin1')
    await chmod(join(folder, path), 0o644)
  }
  // In an image it is a file, or a link into /proc, which is not mounted when the image is inspected.
  if (found['/etc/mtab']?.kind !== 'file') await symlink('/proc/self/mounts', join(folder, 'etc/mtab'))
  await writeProcessors(folder)
  // Hidden in the sandbox, because the runner is mounted over this folder.
  await writeFile(join(folder, '.sandglass', USER_FILE), users.name)
  return users.name
}

const USER_FILE = 'user'

async function userOf(folder: string): Promise<string | null> {
  try {
    return await readFile(join(folder, '.sandglass', USER_FILE), 'utf8')
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}
