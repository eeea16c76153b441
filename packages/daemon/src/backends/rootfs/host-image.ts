// The image `host`: the host's own programs under /usr, and nothing else of the host.
// SECURITY: this is an allow-list of everything that the sandbox sees. What is not named, such as home directories, /var, /opt, keys in /etc and sockets
// in /run, does not exist there; a list of things to hide could be incomplete.
import { createHash, randomBytes } from 'node:crypto'
import { chmod, cp, lstat, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { renameDurably } from '../../lib/durable-rename.ts'
import { nullIfMissing } from '../../lib/missing-file.ts'
import type { TrustedCa } from '../backend.ts'
import { stateOf } from './host-state.ts'
import { PACKAGE_FOLDERS } from './sandbox-paths.ts'
import { findInHost } from './trust/find-in-host.ts'
import { trustFiles, trustPaths } from './trust/trust-files.ts'
import { variantName } from './trust/variants.ts'
import { folderForAll, writeFiles } from './write-files.ts'

/** A host folder or file and its path in the sandbox. `writable`: a session with a writable root can change it, in its own copy. */
export interface Layer {
  readonly source: string
  readonly target: string
  readonly recursive: boolean
  readonly writable: boolean
}

export interface HostRootfs {
  /** Name of the folder below images/. */
  readonly name: string
  readonly layers: readonly Layer[]
}

/** Top-level folders that hold programs. On most systems all but /usr are links into it. */
const PROGRAMS = ['usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32']
const FOLDERS = [
  'dev',
  'etc',
  'home',
  'home/sandbox',
  'mnt',
  'proc',
  'root',
  'run',
  'srv',
  'sys',
  'sys/fs/cgroup',
  'tmp',
  'var',
  'workspace',
  '.sandglass',
  '.sandglass-run',
  ...PACKAGE_FOLDERS,
]
const VAR_FOLDERS = ['var/cache', 'var/lib', 'var/log', 'var/spool']
const TMP_MODE = 0o1777
const LINKS: Record<string, string> = {
  'var/run': '/run',
  'var/lock': '/run/lock',
  'var/tmp': '/tmp',
  'etc/mtab': '/proc/self/mounts',
}

/**
 * Parts of /etc that programs need to start or to use the network, copied unchanged. Files that are not world-readable on the host are skipped.
 * SECURITY: none of these usually holds credentials. Configuration of git, npm, pip, maven and the like can, so it is not here.
 */
const FROM_ETC = [
  ...[
    'alternatives',
    'ld.so.cache',
    'ld.so.conf',
    'ld.so.conf.d',
    'localtime',
    'timezone',
    'locale.alias',
    'locale.conf',
    'default/locale',
  ],
  ...[
    'ssl/certs',
    'ssl/openssl.cnf',
    'ca-certificates',
    'ca-certificates.conf',
    'pki/tls/certs',
    'pki/tls/cert.pem',
    'pki/ca-trust/extracted',
    'pki/java',
  ],
  ...[
    'os-release',
    'debian_version',
    'lsb-release',
    'redhat-release',
    'alpine-release',
    'protocols',
    'services',
    'ethertypes',
    'rpc',
    'mime.types',
  ],
  ...[
    'magic',
    'magic.mime',
    'inputrc',
    'terminfo',
    'fonts',
    'perl',
    'xattr.conf',
    'gai.conf',
    'host.conf',
    'networks',
    'bash_completion.d',
    'papersize',
  ],
  // Debian's chromium does not start without a file there. Other files of that folder may hold keys.
  ...['chromium.d/README', 'chromium.d/default-flags', 'chromium.d/dev-shm'],
]
/** Folders below /etc are checked for changes to this depth. */
const ETC_DEPTH = 2
/** Folders of language runtimes, which have links into them from /usr. */
const RUNTIMES = /^(python[0-9.]*|java(-[0-9]+-openjdk)?|\.java|ImageMagick-[0-9]+|php|ruby|R)$/

/** Files in /etc of every sandbox, whatever its image: names are resolved inside the sandbox. */
export const NETWORK_FILES: Readonly<Record<string, string>> = {
  'etc/hosts': '127.0.0.1 localhost\n',
  'etc/hostname': 'sandbox\n',
  'etc/resolv.conf': 'nameserver 127.0.0.53\noptions edns0 timeout:2\n',
}
export const NSSWITCH = 'passwd: files\ngroup: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n'

const FILES: Record<string, string> = {
  ...NETWORK_FILES,
  'etc/passwd':
    'root:x:0:0:root:/root:/bin/bash\nsandbox:x:1000:1000:sandbox:/home/sandbox:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n',
  'etc/group': 'root:x:0:\ntty:x:5:\nsandbox:x:1000:\nnogroup:x:65534:\n',
  'etc/nsswitch.conf': NSSWITCH,
  'etc/shells': '/bin/sh\n/bin/bash\n',
  'etc/profile': [
    'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    // bash has the user id in a variable, so the first command of a session need not wait for a program to start.
    'part=$EUID; [ -n "$part" ] || part=$(id -u)',
    '[ "$part" = 0 ] || PATH=/home/sandbox/.local/bin:/usr/local/bin:/usr/bin:/bin',
    'export PATH',
    'if [ -n "$BASH_VERSION" ] && [ -r /etc/bash.bashrc ]; then . /etc/bash.bashrc; fi',
    'for part in /etc/profile.d/*.sh; do [ -r "$part" ] && . "$part"; done',
    'unset part',
    '',
  ].join('\n'),
  'etc/bash.bashrc': '[ -z "$PS1" ] || PS1=\'\\u@\\h:\\w\\$ \'\n',
}

/** SECURITY: /sys has only these files. The kernel's own shows every disk of the host and the file behind it, also those of other sessions. */
const CPUS = 'sys/devices/system/cpu'
const FROM_SYS = ['online', 'possible', 'present', 'kernel_max']

/** Makes the folder that becomes `/`, unless it exists for the current state of the host, and returns what is mounted into it. */
export async function prepareHost(imagesDir: string, trust: TrustedCa | null, hostRoot = '/'): Promise<HostRootfs> {
  const copied = await sources(join(hostRoot, 'etc'))
  const programs = await programFolders(hostRoot)
  const name = variantName(`host-${await fingerprint(hostRoot, copied, programs)}`, trust)
  const folder = join(imagesDir, name)
  if (!(await exists(folder))) {
    // Several backends of one process may make it at the same time.
    const building = `${folder}.${randomBytes(6).toString('hex')}.new`
    await build(building, hostRoot, copied, programs)
    if (trust !== null) await addTrust(building, hostRoot, programs, trust)
    await renameDurably(building, folder).catch(async error => {
      // Another start may have made it meanwhile.
      await rm(building, { recursive: true, force: true })
      if (!(await exists(folder))) throw error
    })
  }
  const mounted = programs.filter(program => program.link === null)
  return {
    name,
    layers: [
      { source: folder, target: '/', recursive: false, writable: true },
      ...mounted.map(({ name }) => ({ source: join(hostRoot, name), target: `/${name}`, recursive: true, writable: true })),
    ],
  }
}

interface Program {
  readonly name: string
  readonly link: string | null
}

async function build(folder: string, hostRoot: string, copied: string[], programs: Program[]): Promise<void> {
  await rm(folder, { recursive: true, force: true })
  const mounted = programs.filter(program => program.link === null).map(program => program.name)
  for (const name of ['', ...FOLDERS, ...VAR_FOLDERS, ...mounted]) await folderForAll(join(folder, name))
  // runc gives a tmpfs the mode of the folder that it covers.
  await chmod(join(folder, 'tmp'), TMP_MODE)
  for (const { name, link } of programs) if (link !== null) await symlink(link, join(folder, name))
  for (const [path, target] of Object.entries(LINKS)) await symlink(target, join(folder, path))
  for (const path of copied) await copyReadable(join(hostRoot, 'etc', path), join(folder, 'etc', path))
  for (const [path, text] of Object.entries(FILES)) {
    await writeFile(join(folder, path), text)
    await chmod(join(folder, path), 0o644)
  }
  await writeProcessors(folder, hostRoot)
}

async function addTrust(folder: string, hostRoot: string, programs: readonly Program[], trust: TrustedCa): Promise<void> {
  const mounted = programs.filter(program => program.link === null).map(({ name }) => `/${name}`)
  const isMounted = (path: string) => mounted.some(program => path === program || path.startsWith(`${program}/`))
  const locate = (path: string) => join(isMounted(path) ? hostRoot : folder, path)
  await writeFiles(folder, trustFiles(trust, await findInHost(locate, trustPaths({})), {}, isMounted))
}

/** Writes the files that programs read to count processors. `folder` becomes `/`. */
export async function writeProcessors(folder: string, hostRoot = '/'): Promise<void> {
  await folderForAll(join(folder, CPUS))
  for (const [name, text] of Object.entries(await processors(hostRoot))) {
    await writeFile(join(folder, CPUS, name), text)
    await chmod(join(folder, CPUS, name), 0o444)
  }
  // Programs that count configured processors count these folders.
  for (const name of await processorNames(hostRoot)) await folderForAll(join(folder, CPUS, name))
}

/** A value that differs when these files do. */
export async function processorsMark(hostRoot = '/'): Promise<string> {
  return JSON.stringify([await processors(hostRoot), await processorNames(hostRoot)])
}

async function processors(hostRoot: string): Promise<Record<string, string>> {
  const read = async (name: string) => [name, await readFile(join(hostRoot, CPUS, name), 'utf8').catch(nullIfMissing)] as const
  const found = await Promise.all(FROM_SYS.map(read))
  return Object.fromEntries(found.filter((file): file is [string, string] => file[1] !== null))
}

async function processorNames(hostRoot: string): Promise<string[]> {
  const names = (await readdir(join(hostRoot, CPUS)).catch(nullIfMissing)) ?? []
  return names.filter(name => /^cpu[0-9]+$/.test(name))
}

/** Copies a file or folder, links as links, without files that are not world-readable on the host. */
async function copyReadable(source: string, target: string): Promise<void> {
  await folderForAll(dirname(target))
  await cp(source, target, {
    recursive: true,
    verbatimSymlinks: true,
    filter: async path => {
      const info = await lstat(path)
      if (info.isSymbolicLink()) return true
      return info.isDirectory() ? (info.mode & 0o005) === 0o005 : info.isFile() && (info.mode & 0o004) !== 0
    },
  })
}

async function sources(etc: string): Promise<string[]> {
  const names = [...FROM_ETC, ...(await readdir(etc)).filter(name => RUNTIMES.test(name))]
  const found = await Promise.all(names.map(async name => ((await exists(join(etc, name))) ? name : null)))
  return found.filter(name => name !== null)
}

async function programFolders(hostRoot: string): Promise<Program[]> {
  const found: Program[] = []
  for (const name of PROGRAMS) {
    const info = await lstat(join(hostRoot, name)).catch(nullIfMissing)
    if (info?.isSymbolicLink()) found.push({ name, link: await readlink(join(hostRoot, name)) })
    else if (info?.isDirectory()) found.push({ name, link: null })
  }
  return found
}

async function fingerprint(hostRoot: string, copied: string[], programs: Program[]): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify([FILES, FOLDERS, VAR_FOLDERS, TMP_MODE, LINKS, programs]))
  hash.update(await processorsMark(hostRoot))
  const states = await Promise.all(copied.map(path => stateOf(join(hostRoot, 'etc', path), ETC_DEPTH)))
  hash.update(JSON.stringify([copied, states]))
  return hash.digest('hex').slice(0, 16)
}

async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(nullIfMissing)) !== null
}
