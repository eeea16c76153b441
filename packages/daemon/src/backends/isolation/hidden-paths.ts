// SECURITY: files of /proc with host-wide settings, details of the host's hardware, or activity of others. Namespaces hide none of them.
export const MASKED_PROC = [
  ...['acpi', 'allocinfo', 'asound', 'bootconfig', 'buddyinfo', 'bus', 'cgroups', 'cmdline', 'diskstats', 'driver'],
  ...['dynamic_debug', 'fs', 'interrupts', 'iomem', 'ioports', 'irq', 'kallsyms', 'kcore', 'key-users', 'keys', 'kmsg'],
  ...[
    'kpagecgroup',
    'kpagecount',
    'kpageflags',
    'latency_stats',
    'lock_stat',
    'locks',
    'mdstat',
    'modules',
    'pagetypeinfo',
    'partitions',
  ],
  ...['pressure', 'sched_debug', 'schedstat', 'scsi', 'slabinfo', 'softirqs', 'spl', 'swaps', 'sysrq-trigger', 'timer_list'],
  ...['timer_stats', 'vmallocinfo', 'vmstat', 'zoneinfo'],
  ...['dev', 'fs/aio-nr', 'fs/dentry-state', 'fs/file-nr', 'fs/inode-nr', 'fs/inode-state', 'fs/quota', 'kernel/pty/nr'].map(
    name => `sys/${name}`,
  ),
].map(name => `/proc/${name}`)

export const READONLY_PROC = ['/proc/sys']
