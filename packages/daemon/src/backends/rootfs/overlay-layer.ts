// The overlay layer on top of every image: mount points, the user sandbox, and the files of name resolution. An image may lack them or have links in
// their place; a folder of an upper layer hides a link of a lower one.
import { createHash, randomBytes } from 'node:crypto'
import { chmod, chown, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { renameDurably } from '../../lib/durable-rename.ts'
import { isMissing } from '../../lib/missing-file.ts'
import type { LayeredImage, TrustedCa } from '../backend.ts'
import { contentAt, type FoundPath, type FoundPaths } from './found-paths.ts'
import { NETWORK_FILES, NSSWITCH, processorsMark, writeProcessors } from './host-image.ts'
import { withSandboxUser } from './image-users.ts'
import { PACKAGE_FOLDERS, PACKAGES_PARENT } from './sandbox-paths.ts'
import { trustFiles, trustPaths } from './trust/trust-files.ts'
import { variantName } from './trust/variants.ts'
import { folderForAll, writeFiles } from './write-files.ts'

/** Folder of the overlay layers below the images folder of a backend. The name on disk is older than the term: existing data folders have it. */
export const OVERLAY_LAYERS = 'tops'

const INSPECTED_PATHS = [
  ...['/etc/passwd', '/etc/group', '/etc/nsswitch.conf', '/etc/mtab', '/bin/bash', '/bin/sh', '/usr/bin/bash'],
  PACKAGES_PARENT,
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
/** Folders that a step of an image build sees as the image has them, or not at all. */
const IMAGES_OWN = ['home/sandbox', 'workspace']
const TMP_MODE = 0o1777
const VERSION = 4

export interface OverlayLayer {
  /** Name of its folder below `dir`. */
  readonly name: string
  /** Name of the user that the sandbox's programs run as. */
  readonly user: string
}

/** The part of a layer's name that depends on its image. */
export const overlayLayerPrefix = (imageId: string): string => imageId.replace(/^sha256:/, '').slice(0, 32)

/**
 * With `trust`, the layer also has the files that make programs trust it. `inspect` is called only when the layer does not exist yet. For a step of
 * an image build, users and some folders are those of the image: what the step changes of them becomes a part of the image.
 */
export async function prepareOverlayLayer(
  dir: string,
  { id, env }: LayeredImage,
  trust: TrustedCa | null,
  inspect: (paths: readonly string[]) => Promise<FoundPaths>,
  isBuild = false,
): Promise<OverlayLayer> {
  const parts = [VERSION, FOLDERS, PACKAGE_FOLDERS, NETWORK_FILES, NSSWITCH, await processorsMark()]
  const mark = createHash('sha256').update(JSON.stringify(isBuild ? [...parts, IMAGES_OWN] : parts))
  const name = variantName(`${overlayLayerPrefix(id)}-${mark.digest('hex').slice(0, 16)}`, trust)
  const folder = join(dir, name)
  const known = await userOf(folder)
  if (known !== null) return { name, user: known }
  const found = await inspect([...INSPECTED_PATHS, ...(isBuild ? ['/tmp'] : []), ...(trust === null ? [] : trustPaths(env))])
  const building = `${folder}.${randomBytes(6).toString('hex')}.new`
  const user = await build(building, found, isBuild)
  if (trust !== null) await writeFiles(building, trustFiles(trust, found, env))
  await renameDurably(building, folder).catch(async error => {
    // Another start may have made it meanwhile.
    await rm(building, { recursive: true, force: true })
    if ((await userOf(folder)) === null) throw error
  })
  return { name, user }
}

async function build(folder: string, found: FoundPaths, isBuild: boolean): Promise<string> {
  await mkdir(dirname(folder), { recursive: true, mode: 0o700 })
  const hasTmp = isBuild && found['/tmp']?.path === '/tmp'
  const ofImage = isBuild ? [...IMAGES_OWN, ...(hasTmp ? ['tmp'] : [])] : []
  const folders = [...FOLDERS, ...(isBuild ? [] : packageFolders(found))].filter(name => !ofImage.includes(name))
  for (const name of ['', ...folders]) await folderForAll(join(folder, name))
  if (folders.includes(PACKAGES_PARENT.slice(1))) await keepOwner(join(folder, PACKAGES_PARENT), found[PACKAGES_PARENT])
  // runc gives a tmpfs the mode of the folder that it covers.
  if (!hasTmp) await chmod(join(folder, 'tmp'), TMP_MODE)
  const text = (path: string) => contentAt(found, path).toString('latin1')
  const shell = found['/bin/bash']?.kind === 'file' ? '/bin/bash' : '/bin/sh'
  const users = withSandboxUser(text('/etc/passwd'), text('/etc/group'), shell)
  const files: Record<string, string> = { ...NETWORK_FILES }
  if (!isBuild) Object.assign(files, { 'etc/passwd': users.passwd, 'etc/group': users.group })
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

/** A folder that the image has, too, keeps its owner and mode where they are known. */
async function keepOwner(path: string, { kind, mode, uid = 0, gid = 0 }: FoundPath = { kind: '' }): Promise<void> {
  if (kind !== 'folder' || mode === undefined) return
  await chown(path, uid, gid)
  await chmod(path, mode & 0o7777)
}

/** None in an image whose /opt is a link: a folder in its place would hide the programs that it leads to. Such an image takes no packages. */
function packageFolders(found: FoundPaths): readonly string[] {
  const { kind = '', path } = found[PACKAGES_PARENT] ?? {}
  return kind === '' || path === PACKAGES_PARENT ? PACKAGE_FOLDERS : []
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
