// SECURITY: host-wide knobs and host details that a namespace does not hide.
export const MASKED_PROC = [
  ...['acpi', 'asound', 'cmdline', 'diskstats', 'interrupts', 'kallsyms', 'kcore', 'key-users', 'keys', 'kmsg', 'latency_stats'],
  ...['modules', 'partitions', 'sched_debug', 'scsi', 'sysrq-trigger', 'timer_list', 'timer_stats'],
].map(name => `/proc/${name}`)

export const READONLY_PROC = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys']
