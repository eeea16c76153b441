// The checks that a backend does not guarantee, by exact title and with the reason. The suite excludes them, and docs/backends.md lists them.

export const WITHOUT_QUOTA = 'a Docker volume has no quota'
const ONE_USER = 'without a user namespace all sandboxes have the same user id on the host'
export const NOBODY_ROOT = 'nobody is root in a container, and only root may change files of the image'

export const DOCKER: Readonly<Record<string, string>> = {
  'a full disk affects only its own session': WITHOUT_QUOTA,
  'two machines have different user ids on the host': ONE_USER,
  'inotify and file locks on shared files do not reach across machines':
    'the host image consists of bind mounts, which share inodes with the host',
  'changes to a writable root are visible only in their own machine': NOBODY_ROOT,
  'root cannot move or replace the mount points of a writable root': NOBODY_ROOT,
  'changes to a writable image stay in their own session and survive a restart': NOBODY_ROOT,
  'a connection through the egress endpoint outlives the daemon':
    'the daemon relays: connections through the egress process end when the daemon restarts',
  'a machine that opens as many terminals as it can leaves enough for others': 'the engine mounts /dev/pts without a limit',
  'a machine that creates as many timers as it can leaves enough for others': ONE_USER,
  'a machine that creates as many inotify instances as it can leaves enough for others': ONE_USER,
}

const ONE_PROCESS = 'the host sees gVisor and everything in it as one program, which ends when it exceeds the limit'
const OWN_KERNEL = 'gVisor is the kernel: what it allows root to do has no effect outside of the sandbox'

const RESIZE = 'memory and cpu limits of a running machine can be raised and lowered'
const RESIZE_PROCESSES = 'the process limit of a running machine can be raised and lowered'
const FIXED = 'the memory and processors of a virtual machine are fixed at its start: stop the session to resize it'

const EMULATED = 'not tested, because it takes minutes on an emulated processor'

export const MICROVM: Readonly<Record<string, string>> = {
  [RESIZE]: FIXED,
  [RESIZE_PROCESSES]: FIXED,
  'an npm package with a native addon loads': EMULATED,
  'headless Chromium runs the script of a page': EMULATED,
  'headless Chromium trusts the certificate authority': EMULATED,
}

export const RUNSC: Readonly<Record<string, string>> = {
  'a program that exceeds the memory limit is killed, and the machine keeps running': ONE_PROCESS,
  'a fork bomb stops at the process limit, and the machine keeps running': ONE_PROCESS,
  'a machine that creates as many timers as it can leaves enough for others': ONE_PROCESS,
  [RESIZE]: ONE_PROCESS,
  [RESIZE_PROCESSES]: 'gVisor enforces the process limit itself, and it is fixed at the start',
  'root cannot move or replace the mount points of a writable root':
    'mounts are made outside of gVisor: root can remove the mount points, and the session does not start again then',
  'system calls that change mounts, namespaces, keys or the kernel are refused, even for root': OWN_KERNEL,
  'kernel settings and host details in /proc and /sys are masked or read-only': OWN_KERNEL,
  'device files cannot be created': OWN_KERNEL,
  'host-wide queues of asynchronous I/O and messages are refused, even for root': OWN_KERNEL,
}

const NO_CGROUP = 'no cgroup was delegated to this user'

export const ORDINARY_USER: Readonly<Record<string, string>> = {
  'changes to a writable root are visible only in their own machine': 'mapping the owners of host files needs root',
  'root cannot move or replace the mount points of a writable root': 'mapping the owners of host files needs root',
  'files keep the owners and modes that they have in the image':
    'mapping the owners of layers needs root: files of an image belong to nobody in the sandbox',
  'changes to a writable image stay in their own session and survive a restart': 'mapping the owners of layers needs root',
  'root in a machine cannot read files in /usr that only root may read on the host': 'only root can create such a file',
  'a machine that creates as many inotify instances as it can leaves enough for others':
    'the kernel counts them for the user that runs the daemon',
  [RESIZE_PROCESSES]: 'only root can raise the process limit of a user',
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

/** For a root daemon that may not change the rlimits of other processes, as in some containers. */
export const WITHOUT_SYS_RESOURCE: Readonly<Record<string, string>> = {
  [RESIZE_PROCESSES]: 'the daemon does not have CAP_SYS_RESOURCE',
}
