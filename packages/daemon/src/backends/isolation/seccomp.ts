// The system calls that a sandbox may make. It is an allow-list: a call that is not named fails with ENOSYS, so calls of later kernels are closed, too.
// Programs and libraries take ENOSYS for an old kernel and fall back. Dangerous calls fail with EPERM.

interface Syscalls {
  readonly names: readonly string[]
  readonly action: string
  readonly errnoRet?: number
  readonly args?: readonly Arg[]
}
interface Arg {
  readonly index: number
  readonly value: number
  readonly valueTwo?: number
  readonly op: string
}

export interface SeccompProfile {
  readonly defaultAction: string
  readonly defaultErrnoRet: number
  readonly architectures: readonly string[]
  readonly syscalls: readonly Syscalls[]
}

const EPERM = 1
const ENOSYS = 38
const EPROTONOSUPPORT = 93
const EAFNOSUPPORT = 97

export function seccompProfile(arch: NodeJS.Architecture): SeccompProfile {
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: ENOSYS,
    // SECURITY: the machine's own instruction set only. The 32-bit and x32 tables number their calls differently and would need a list of their own.
    architectures: [arch === 'arm64' ? 'SCMP_ARCH_AARCH64' : 'SCMP_ARCH_X86_64'],
    syscalls: [
      { names: Object.values(ALLOWED).flatMap(words), action: 'SCMP_ACT_ALLOW' },
      ...CLONE,
      ...SOCKETS,
      ...PERSONALITY,
      ...IOCTL,
      { names: words(REFUSED), action: 'SCMP_ACT_ERRNO', errnoRet: EPERM },
      { names: words(ABSENT), action: 'SCMP_ACT_ERRNO', errnoRet: ENOSYS },
    ],
  }
}

/**
 * For a sandbox with its own kernel (gVisor), which implements few of these calls and can refuse a call only with EPERM, which programs do not take
 * for an old kernel. So this is a deny-list, and clone3 is not in it: libraries could create no thread.
 */
export function refusalProfile(arch: NodeJS.Architecture): SeccompProfile {
  const refused = { action: 'SCMP_ACT_ERRNO', errnoRet: EPERM }
  return {
    ...seccompProfile(arch),
    defaultAction: 'SCMP_ACT_ALLOW',
    syscalls: [
      { names: words(REFUSED), ...refused },
      ...NO_NAMESPACES,
      ...[TIOCSTI, TIOCLINUX].map(request => ({
        names: ['ioctl'],
        ...refused,
        args: [{ index: 1, value: 0xffff_ffff, valueTwo: request, op: 'SCMP_CMP_MASKED_EQ' }],
      })),
    ],
  }
}

function words(text: string): string[] {
  return text.trim().split(/\s+/)
}

// SECURITY: io_setup, mq_open and related calls are not allowed: the host has one small pool of each, which no limit per user divides.
// Names that exist only on one architecture are skipped on the other.
const ALLOWED: Readonly<Record<string, string>> = {
  'reading and writing': `
    read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 lseek close sendfile splice tee
    vmsplice copy_file_range readahead fadvise64 sync_file_range fsync fdatasync sync syncfs dup dup2 dup3 fcntl flock pipe
    pipe2 ftruncate truncate fallocate cachestat`,
  'names and metadata': `
    open openat openat2 creat access faccessat faccessat2 stat lstat fstat newfstatat statx statfs fstatfs getdents
    getdents64 readlink readlinkat getcwd chdir fchdir umask link linkat symlink symlinkat unlink unlinkat rename renameat
    renameat2 mkdir mkdirat rmdir mknod mknodat chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes
    utimensat futimesat getxattr lgetxattr fgetxattr setxattr lsetxattr fsetxattr listxattr llistxattr flistxattr
    removexattr lremovexattr fremovexattr inotify_init inotify_init1 inotify_add_watch inotify_rm_watch name_to_handle_at`,
  memory: `
    brk mmap munmap mremap mprotect madvise msync mincore mlock mlock2 munlock mlockall munlockall memfd_create membarrier
    pkey_alloc pkey_free pkey_mprotect remap_file_pages map_shadow_stack process_madvise mseal shmget shmat shmdt shmctl
    get_mempolicy set_mempolicy mbind process_mrelease`,
  'processes and threads': `
    fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid set_tid_address arch_prctl getpgid getpgrp
    setpgid getsid setsid kill tkill tgkill pidfd_open pidfd_send_signal pidfd_getfd prctl rseq set_robust_list
    get_robust_list futex futex_waitv futex_wake futex_wait futex_requeue restart_syscall kcmp sched_yield sched_getaffinity
    sched_setaffinity sched_getparam sched_setparam sched_getscheduler sched_setscheduler sched_get_priority_max
    sched_get_priority_min sched_rr_get_interval sched_getattr sched_setattr getpriority setpriority ioprio_get ioprio_set
    getcpu getrlimit setrlimit prlimit64 getrusage times seccomp landlock_create_ruleset landlock_add_rule
    landlock_restrict_self`,
  // A tracer reaches only processes of its own pid namespace with the same user and no more privileges, and the filter is applied after the tracer.
  debugging: 'ptrace process_vm_readv process_vm_writev',
  signals: `
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo
    sigaltstack signalfd signalfd4 pause alarm`,
  // adjtimex and clock_adjtime read as well as set; setting needs a capability that no process of a sandbox has.
  time: `
    clock_gettime clock_getres clock_nanosleep gettimeofday time nanosleep getitimer setitimer timer_create timer_settime
    timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime timerfd_gettime adjtimex clock_adjtime`,
  waiting: `
    select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2`,
  'sockets, once made': `
    socketpair bind listen accept accept4 connect shutdown getsockname getpeername getsockopt setsockopt sendto recvfrom
    sendmsg recvmsg sendmmsg recvmmsg`,
  'users and rights': `
    getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid setresgid
    setgroups setfsuid setfsgid capget capset`,
  'messages and semaphores': `
    msgget msgsnd msgrcv msgctl semget semop semtimedop semctl`,
  'the system': 'uname sysinfo getrandom set_thread_area get_thread_area sethostname setdomainname',
}

const NEW_NAMESPACES = 0x7e02_0000
const NO_NAMESPACES: Syscalls[] = Array.from({ length: 32 }, (_, bit) => 2 ** bit)
  .filter(bit => (NEW_NAMESPACES & bit) !== 0)
  .map(bit => ({
    names: ['clone'],
    action: 'SCMP_ACT_ERRNO',
    errnoRet: EPERM,
    args: [{ index: 0, value: bit, valueTwo: bit, op: 'SCMP_CMP_MASKED_EQ' }],
  }))
const [CLONE_FILES, CLONE_THREAD, CLOSE_RANGE_UNSHARE] = [0x400, 0x1_0000, 2]
/**
 * SECURITY: clone only without new namespaces. clone3 passes its flags behind a pointer, which seccomp cannot read, so it fails with ENOSYS and libraries
 * use clone. A thread must share the open files of its process: the host does not count the files of one that does not.
 */
const CLONE: Syscalls[] = [
  masked('clone', 0, NEW_NAMESPACES | CLONE_THREAD, 0),
  masked('clone', 0, NEW_NAMESPACES | CLONE_THREAD | CLONE_FILES, CLONE_THREAD | CLONE_FILES),
  masked('close_range', 2, CLOSE_RANGE_UNSHARE, 0),
  ...NO_NAMESPACES,
]

function masked(name: string, index: number, mask: number, value: number): Syscalls {
  return {
    names: [name],
    action: 'SCMP_ACT_ALLOW',
    args: [{ index, value: mask, valueTwo: value, op: 'SCMP_CMP_MASKED_EQ' }],
  }
}

const [UNIX, INET, NETLINK, INET6, STREAM, DGRAM, TCP, UDP] = [1, 2, 16, 10, 1, 2, 6, 17]
const TYPE_MASK = 0xf
const NETLINK_AUDIT = 9
/** SECURITY: unix, TCP and UDP sockets, and routing information. No raw packets, and no crypto, vsock or other families with a history of vulnerabilities. */
const SOCKETS: Syscalls[] = [
  socket([{ index: 0, value: UNIX, op: 'SCMP_CMP_EQ' }]),
  socket([
    { index: 0, value: NETLINK, op: 'SCMP_CMP_EQ' },
    { index: 2, value: 0, op: 'SCMP_CMP_EQ' },
  ]),
  ...[INET, INET6].flatMap(family =>
    [
      [STREAM, 0],
      [STREAM, TCP],
      [DGRAM, 0],
      [DGRAM, UDP],
    ].map(([type = 0, protocol = 0]) =>
      socket([
        { index: 0, value: family, op: 'SCMP_CMP_EQ' },
        { index: 1, value: TYPE_MASK, valueTwo: type, op: 'SCMP_CMP_MASKED_EQ' },
        { index: 2, value: protocol, op: 'SCMP_CMP_EQ' },
      ]),
    ),
  ),
  {
    names: ['socket'],
    action: 'SCMP_ACT_ERRNO',
    errnoRet: EAFNOSUPPORT,
    args: [{ index: 0, value: NETLINK, op: 'SCMP_CMP_GT' }],
  },
  // useradd and groupadd go on without the audit log of a kernel that has none, and fail for any other reason.
  {
    names: ['socket'],
    action: 'SCMP_ACT_ERRNO',
    errnoRet: EPROTONOSUPPORT,
    args: [
      { index: 0, value: NETLINK, op: 'SCMP_CMP_EQ' },
      { index: 2, value: NETLINK_AUDIT, op: 'SCMP_CMP_EQ' },
    ],
  },
]

function socket(args: Arg[]): Syscalls {
  return { names: ['socket'], action: 'SCMP_ACT_ALLOW', args }
}

/** Linux, 32-bit Linux, an old version number, no address randomization for debuggers, and the query. */
const PERSONALITY: Syscalls[] = [0, 8, 0x2_0000, 0x2_0008, 0x4_0000, 0xffff_ffff].map(value => ({
  names: ['personality'],
  action: 'SCMP_ACT_ALLOW',
  args: [{ index: 0, value, op: 'SCMP_CMP_EQ' }],
}))

const [TIOCSTI, TIOCLINUX] = [0x5412, 0x541c]
/** SECURITY: every ioctl except the two that inject terminal input. Only the lower 32 bits count, as in the kernel. */
const IOCTL: Syscalls[] = allBut([TIOCSTI, TIOCLINUX]).map(({ mask, value }) => ({
  names: ['ioctl'],
  action: 'SCMP_ACT_ALLOW',
  args: [{ index: 1, value: mask, valueTwo: value, op: 'SCMP_CMP_MASKED_EQ' }],
}))

/** All 32-bit numbers except `excluded`, as the fewest blocks of numbers with the same upper bits. */
function allBut(excluded: number[]): { mask: number; value: number }[] {
  const blocks: { mask: number; value: number }[] = []
  const visit = (value: number, bits: number) => {
    const size = 2 ** bits
    if (!excluded.some(number => number >= value && number < value + size)) blocks.push({ mask: 2 ** 32 - size, value })
    else if (bits > 0) {
      visit(value, bits - 1)
      visit(value + size / 2, bits - 1)
    }
  }
  visit(0, 32)
  return blocks
}

/** Calls that fail with EPERM, where ENOSYS would mislead. */
const REFUSED = `
  mount umount umount2 pivot_root open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr unshare setns bpf
  perf_event_open userfaultfd keyctl add_key request_key open_by_handle_at fanotify_init io_uring_setup io_uring_enter
  io_uring_register kexec_load kexec_file_load init_module finit_module delete_module swapon swapoff reboot quotactl
  quotactl_fd acct syslog vhangup settimeofday clock_settime iopl ioperm nfsservctl lookup_dcookie move_pages migrate_pages
  uselib ustat sysfs _sysctl vm86 vm86old memfd_secret chroot fanotify_mark modify_ldt`

/**
 * All other calls of today's kernels. Docker Engine before 23 ignores `defaultErrnoRet` and lets a call that no rule names fail with EPERM: the C library
 * could create no thread, because it falls back from clone3 to clone only on ENOSYS.
 */
const ABSENT = `
  clone3 io_setup io_destroy io_getevents io_pgetevents io_submit io_cancel mq_open mq_unlink mq_timedsend mq_timedreceive
  mq_notify mq_getsetattr set_mempolicy_home_node statmount listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules
  setxattrat getxattrat listxattrat removexattrat open_tree_attr file_getattr file_setattr listns uretprobe uprobe
  create_module get_kernel_syms query_module getpmsg putpmsg afs_syscall tuxcall security epoll_ctl_old epoll_wait_old vserver`
