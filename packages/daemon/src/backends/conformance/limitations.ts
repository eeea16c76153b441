// What a backend does not guarantee, by the exact name of the check and with the reason. The suite leaves those checks out, and the page
// about backends shows them.

export const WITHOUT_QUOTA = 'a Docker volume has no quota'
const ONE_USER = 'without a user namespace there is one user on the host for all'
export const NOBODY_ROOT = 'nobody is root in a container, and only root may change what is in the image'

export const DOCKER: Readonly<Record<string, string>> = {
  'a full disk affects only its own session': WITHOUT_QUOTA,
  'two machines have different user ids on the host': ONE_USER,
  'inotify and file locks on shared files do not reach across machines':
    'the host image is made of bind mounts, which share their inodes',
  'changes to a writable root are visible only in their own machine': NOBODY_ROOT,
  'root cannot move or replace the mount points of a writable root': NOBODY_ROOT,
  'changes to a writable image stay in their own session and survive a restart': NOBODY_ROOT,
  'a machine that opens as many terminals as it can leaves enough for others': 'the engine mounts /dev/pts without a bound of its own',
  'a machine that creates as many timers as it can leaves enough for others': ONE_USER,
  'a machine that creates as many inotify instances as it can leaves enough for others': ONE_USER,
}

const ONE_TO_THE_HOST = 'to the host gVisor and all that runs in it are one: past the limit the sandbox ends'
const PLAYED = 'gVisor plays the kernel: what it lets root do has no effect outside it'

const RESIZE = 'memory and cpu limits of a running machine can be raised and lowered'
const RESIZE_PROCESSES = 'the process limit of a running machine can be raised and lowered'
const FIXED = 'a virtual machine has the memory and processors that it started with: stop the session to resize it'

const EMULATED = 'not tested: it takes minutes on an emulated processor'

export const MICROVM: Readonly<Record<string, string>> = {
  [RESIZE]: FIXED,
  [RESIZE_PROCESSES]: FIXED,
  'an npm package with a native addon loads': EMULATED,
  'headless Chromium runs the script of a page': EMULATED,
}

export const RUNSC: Readonly<Record<string, string>> = {
  'a program that exceeds the memory limit is killed, and the machine keeps running': ONE_TO_THE_HOST,
  'a fork bomb stops at the process limit, and the machine keeps running': ONE_TO_THE_HOST,
  'a machine that creates as many timers as it can leaves enough for others': ONE_TO_THE_HOST,
  [RESIZE]: ONE_TO_THE_HOST,
  [RESIZE_PROCESSES]: 'gVisor bounds processes by itself, from its start',
  'root cannot move or replace the mount points of a writable root':
    'mounts are outside gVisor: root can remove their places, and such a session does not start again',
  'system calls that change mounts, namespaces, keys or the kernel are refused, even for root': PLAYED,
  'kernel settings and host details in /proc and /sys are masked or read-only': PLAYED,
  'device files cannot be created': PLAYED,
  'host-wide queues of asynchronous I/O and messages are refused, even for root': PLAYED,
}

const NO_CGROUP = 'no cgroup was delegated to this user'

export const ORDINARY_USER: Readonly<Record<string, string>> = {
  'changes to a writable root are visible only in their own machine': 'shifting the owners of host files needs root',
  'root cannot move or replace the mount points of a writable root': 'shifting the owners of host files needs root',
  'files keep the owners and modes that they have in the image':
    'shifting the owners of layers needs root: files of an image belong to nobody inside',
  'changes to a writable image stay in their own session and survive a restart':
    'shifting the owners of layers needs root',
  'root in a machine cannot read files in /usr that only root may read on the host': 'only root can put such a file there',
  'a machine that creates as many inotify instances as it can leaves enough for others': 'the kernel counts them for the user whose daemon it is',
  [RESIZE_PROCESSES]: 'only root can raise the number of processes that a user may have',
}

export const WITHOUT_CGROUP: Readonly<Record<string, string>> = {
  'pause stops every process and resume continues them': NO_CGROUP,
  'a paused machine can be destroyed': NO_CGROUP,
  'stats report usage and limits': NO_CGROUP,
  'busy loops use the whole cpu limit and no more': NO_CGROUP,
  'a program that exceeds the memory limit is killed, and the machine keeps running': NO_CGROUP,
  'a fork bomb stops at the process limit, and the machine keeps running': NO_CGROUP,
  [RESIZE]: NO_CGROUP,
}

/** Of a root that may not change limits of other processes, as in some containers. */
export const WITHOUT_SYS_RESOURCE: Readonly<Record<string, string>> = {
  [RESIZE_PROCESSES]: 'the daemon does not have CAP_SYS_RESOURCE',
}
