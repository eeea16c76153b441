// What a backend does not guarantee, by the exact name of the check and with the reason. The suite leaves those checks out, and the page
// about backends shows them.

export const WITHOUT_QUOTA = 'a Docker volume has no quota'
const ONE_USER = 'without a user namespace there is one user on the host for all'
export const NOBODY_ROOT = 'nobody is root in a container, and only root may change what is in the image'

export const DOCKER: Readonly<Record<string, string>> = {
  "a full disk is that session's own": WITHOUT_QUOTA,
  'two machines have different ids on the host': ONE_USER,
  'what others do with the same files cannot be watched, and a lock is of one machine alone':
    'the host image is made of bind mounts, which share their inodes',
  'a writable root takes changes that only this machine sees': NOBODY_ROOT,
  'root in a writable root cannot move what the next start mounts on': NOBODY_ROOT,
  'what a session changes in a writable image stays its own, and is there after a restart': NOBODY_ROOT,
  'a machine that takes every terminal leaves others theirs': 'the engine mounts /dev/pts without a bound of its own',
  'a machine that takes every timer leaves others theirs': ONE_USER,
  'a machine that takes every inotify instance leaves others theirs': ONE_USER,
}

const ONE_TO_THE_HOST = 'to the host gVisor and all that runs in it are one: past the limit the sandbox ends'
const PLAYED = 'gVisor plays the kernel: what it lets root do has no effect outside it'

const RESIZE = 'memory and processor of a machine that runs can be raised and lowered'
const RESIZE_PROCESSES = 'processes of a machine that runs can be raised and lowered'
const FIXED = 'a virtual machine has the memory and processors that it started with: stop the session to resize it'

const EMULATED = 'not tested: it takes minutes on an emulated processor'

export const MICROVM: Readonly<Record<string, string>> = {
  [RESIZE]: FIXED,
  [RESIZE_PROCESSES]: FIXED,
  'an npm package with a native addon loads': EMULATED,
  'headless Chromium runs the script of a page': EMULATED,
}

export const RUNSC: Readonly<Record<string, string>> = {
  'memory past the limit ends the program and not the machine': ONE_TO_THE_HOST,
  'a fork bomb stops at the limit, and the machine goes on': ONE_TO_THE_HOST,
  'a machine that takes every timer leaves others theirs': ONE_TO_THE_HOST,
  [RESIZE]: ONE_TO_THE_HOST,
  [RESIZE_PROCESSES]: 'gVisor bounds processes by itself, from its start',
  'root in a writable root cannot move what the next start mounts on':
    'mounts are outside gVisor: root can remove their places, and such a session does not start again',
  'calls that change mounts, namespaces, keys or the kernel are refused, even for root': PLAYED,
  'kernel knobs and host details are masked or read-only': PLAYED,
  'device files cannot be made': PLAYED,
  'queues that the whole host shares are out of reach, even for root': PLAYED,
}

const NO_CGROUP = 'no cgroup was delegated to this user'

export const ORDINARY_USER: Readonly<Record<string, string>> = {
  'a writable root takes changes that only this machine sees': 'shifting the owners of host files needs root',
  'root in a writable root cannot move what the next start mounts on': 'shifting the owners of host files needs root',
  'owners and modes in an image are those inside':
    'shifting the owners of layers needs root: files of an image belong to nobody inside',
  'what a session changes in a writable image stays its own, and is there after a restart':
    'shifting the owners of layers needs root',
  "what only the host's root may read in /usr stays unreadable for root inside": 'only root can put such a file there',
  'a machine that takes every inotify instance leaves others theirs': 'the kernel counts them for the user whose daemon it is',
  [RESIZE_PROCESSES]: 'only root can raise the number of processes that a user may have',
}

export const WITHOUT_CGROUP: Readonly<Record<string, string>> = {
  'pause stops every process and resume continues them': NO_CGROUP,
  'a paused machine can be destroyed': NO_CGROUP,
  'statistics show what runs and the limits': NO_CGROUP,
  'busy loops get their share of the cpu and no more': NO_CGROUP,
  'memory past the limit ends the program and not the machine': NO_CGROUP,
  'a fork bomb stops at the limit, and the machine goes on': NO_CGROUP,
  [RESIZE]: NO_CGROUP,
}

/** Of a root that may not change limits of other processes, as in some containers. */
export const WITHOUT_SYS_RESOURCE: Readonly<Record<string, string>> = {
  [RESIZE_PROCESSES]: 'the daemon does not have CAP_SYS_RESOURCE',
}
